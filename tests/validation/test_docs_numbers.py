"""Numbers of docs/ about the theory are those of the claims, the laws and the stored counterexamples."""

import re
from dataclasses import replace

import numpy as np
import pytest

from snapdyn.analytic import transition_time, transition_time_with_overlap, u_plus
from snapdyn.dynamics import MeanField, integrate, random_classes, single_common_token
from snapdyn.validation.claims.extensions import layer_norm
from snapdyn.validation.claims.extensions.heads import expected_diversity
from snapdyn.validation.claims.maps import fall_onset
from snapdyn.validation.claims.reproduction import figure6
from snapdyn.validation.claims.small_data import spurious_prior
from snapdyn.validation.search.counterexamples import load
from snapdyn.validation.search.instance import Instance
from tests.helpers import ROOT


def page(name: str) -> str:
    """A page of the documentation, on one line."""
    return " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


def rounded(number: float, written: str) -> str:
    """Return `number` with as many decimals as the written number has."""
    return f"{number:.{len(written.partition('.')[2])}f}"


def test_the_transition_at_strong_overlap() -> None:
    """Assert rho and the time of the transition over t* at K = 5, V = 1000, by the law and in a run."""
    found = re.search(
        r"common token of probability ([\d.]+) \(rho = ([\d.]+)\) gives ([\d.]+) t\* at K = (\d+), V = (\d+)",
        page("how_to/sweeps.md"),
    )
    assert found
    common, rho, ratio = found[1], found[2], found[3]
    K, V, eta_Y = int(found[4]), int(found[5]), 1.0
    classes = single_common_token(K, K, float(common), V)
    overlap = float(classes.gram()[0, 1])
    assert rounded(overlap, rho) == rho
    t_peak = float(transition_time(K, V, eta_Y))
    assert rounded(float(transition_time_with_overlap(K, V, eta_Y, overlap)) / t_peak, ratio) == ratio
    # gamma peaks where u alpha = 1, u = ln(alpha (V-1)/(1-alpha)) the lead of the correct logit and loss = -ln(alpha).
    times = np.linspace(0.5, 3.0, 501) * t_peak
    run = integrate(MeanField(classes, eta_Y, eta_Z=1e-6), times)
    alpha = np.exp(-run.loss)
    lead = np.log(alpha * (V - 1) / (1 - alpha))
    measured = np.interp(1.0, lead * alpha, times / t_peak)
    assert rounded(float(measured), ratio) == ratio


@pytest.mark.long
@pytest.mark.parametrize("correlation", ["strong", "weak"])
def test_where_tokens_begin_to_fall(correlation: str) -> None:
    """Assert the first fall and the fall of half of the instances in (eta_Z/eta_Y)(V h)^2, and one far below."""
    text = page("how_to/sweeps.md")
    onsets = [
        fall_onset(
            random_classes(3, 1, 4, vocab_size=100, correlation=correlation, seed=seed), 0.1, np.geomspace(1, 1e30, 301)
        )[1]
        for seed in range(30)
    ]
    first, half = re.findall(rf"([\d.]+) \({correlation}\)", text)
    assert rounded(float(np.nanmin(onsets)), first) == first
    assert np.median(np.nan_to_num(onsets, nan=np.inf)) == pytest.approx(float(half), rel=0.05)


def test_a_stored_counterexample_falls_far_below() -> None:
    instance = load("theorem2a-strong-slow").instance
    onset = fall_onset(instance.classes, instance.eta_Z / instance.eta_Y, np.geomspace(1, instance.t_end, 301))[1]
    assert f"a token falls at {onset:.2f}." in page("how_to/sweeps.md")


def row(name: str, first: str) -> list[str]:
    """Cells of the row of a page's table that begins with `first`."""
    lines = (ROOT / "docs" / name).read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {first} |")]
    return line.removesuffix(" |").split(" | ")[1:]


def test_tables_of_heads_and_of_the_threshold() -> None:
    """Assert the tables against the law, at s = 0 close to it, and against descent with and without memory."""
    name = "theory/heads_and_layer_norm.md"
    for s, written in zip(row(name, "s"), row(name, "expected number of winners"), strict=True):
        assert rounded(expected_diversity(np.array([4.0, 2.0, 1.0]), float(s) or 1e-3, 8)[0], written) == written
    assert tuple(map(float, row(name, "eta_Y/eta_Z"))) == figure6.RATIOS
    for first, entropies in (
        ("T and batch infinite, zero start", figure6.descended(3, 1.0)),
        ("the same, decoder retrained at each step", figure6.retrained(3, 1.0)),
    ):
        assert row(name, first) == [f"{entropy:.3f}" for entropy in entropies]


def test_table_of_layer_norm() -> None:
    """Assert changes of growth, the rise of a common token, and the exponents of ln t with epsilon."""
    name, sizes = "theory/heads_and_layer_norm.md", (10, 100, 1000)
    written = row(name, "Theorem 4, growth of the dominant logit to t = 100, change")[1:]
    for cell, epsilon in zip(written, (None, 1e-5), strict=True):
        for M, change in zip(sizes, re.findall(r"(-?[\d.]+) %", cell), strict=False):
            assert rounded(100.0 * layer_norm.growth_gap((M, epsilon)).value, change.strip("-")) == change.strip("-")

    (share,) = re.findall(r"(\d+) %", row(name, "Theorem 2(b): a single common token falls")[2])
    P = np.hstack([np.full((5, 1), 0.3), np.kron(np.eye(5), [0.4, 0.2, 0.1])])
    five = Instance(P, np.zeros(5, int), np.ones(5), 1000, 1.0, 1.0, 1e4)
    for added, rises in ((0.03, False), (0.16, True), (0.3, False)):
        z = layer_norm.attention_logits(five, added / 16)[:, 0, :4]
        rise = (z[:, 0] - np.minimum.accumulate(z[:, 0])).max() / np.abs(z - z[0]).max()
        assert rise == pytest.approx(float(share) / 100.0 if rises else 0.0, abs=0.005)

    written = row(name, "Theorem 4, snapping: exponent of ln t in chi for t >= t0, at most 1")[2]
    (exponent,) = re.findall(r"fails: ([\d.]+) in", written)
    t0 = 6.0 * float(u_plus(1000))
    rare = replace(layer_norm.over(10, 0.1), vocab_size=1000, t_end=1.2 * t0)
    growth, t = 2.0 * layer_norm.attention_logits(rare, 0.01)[1:, 0, 1], np.linspace(0.0, rare.t_end, 30)[1:]
    slopes = np.diff(growth) / np.diff(np.log(np.log(1000.0 * t / 3.0)))
    assert rounded(slopes[t[:-1] >= t0].max(), exponent) == exponent


def test_sequences_that_a_start_equals() -> None:
    """Assert the numbers of sequences for one and two nats in training, and for four by the closed form at z = 0."""
    pattern = r"as much as ([\d.]+) sequences per class, two as ([\d.]+),.*? some (\d+) by"
    found = re.search(pattern, page("how_to/small_data.md"))
    assert found
    for nats, written in zip((1.0, 2.0), found.groups(), strict=False):
        assert rounded(spurious_prior.equivalent(nats), written) == written
    lowered = spurious_prior.expected_attention(3) / (0.75 * np.exp(4.0) + 0.25)
    before, after = (spurious_prior.expected_attention(N) for N in (int(found[3]) - 5, int(found[3]) + 5))
    assert after < lowered < before
