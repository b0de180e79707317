"""Equivalent classes in any number, against the mean field of all of them."""

import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from snapdyn.analytic import (
    largest_ladder_gap,
    single_common_token_orbit,
    transition_time,
    transition_time_with_overlap,
    u_plus,
)
from snapdyn.dynamics import (
    ClassKind,
    Event,
    MeanField,
    SymmetricClasses,
    Trajectory,
    descend,
    integrate,
    load,
    log_times,
    sgd,
    single_common_token,
    symmetric_classes,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.symmetry.reduction import reduced
from snapdyn.dynamics.symmetry.systems import MeanFieldQuotient
from snapdyn.errors import InputError
from tests.dynamics.symmetry.helpers import plain, random_symmetric_classes


def of(classes: SymmetricClasses, eta_Y: float = 1.0, eta_Z: float = 0.7) -> MeanFieldQuotient:
    """The system on the kinds that the classes carry."""
    return MeanFieldQuotient(MeanField(classes, eta_Y, eta_Z), classes.exchangeable)


def symmetric(common: list[float], distinct: list[float], *numbers: int, **options: int) -> SymmetricClasses:
    return symmetric_classes(ClassKind(common, distinct, *numbers), **options)


CASES = {
    **{f"K = {K}": single_common_token(K, 3, 0.3, 200) for K in (2, 3, 7, 40)},
    "one distinct token": single_common_token(11, 1, 0.4, 12),
    "V = K": symmetric([0.4], [0.6], 2, vocab_size=2),
    "one class": symmetric([0.2], [0.8], vocab_size=9),
    "no common token": symmetric([], [0.2, 0.8], 2, vocab_size=9),
    "no common token, one other output": symmetric([], [0.2, 0.8], 2, vocab_size=3),
    "one class per query": symmetric([0.4], [0.6], num_queries=2, vocab_size=9),
    "Syn-Small": syn_small(),
    "Syn-Small of 5": syn_small(5),
    **{f"Syn-Medium, Q = {Q}": syn_medium(Q) for Q in (1, 3, 10)},
    **{f"random {seed}": random_symmetric_classes(seed) for seed in range(12)},
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_mean_field_of_all_classes(name: str) -> None:
    """Assert equal steps, and all observables of every class to rounding, against every class by itself."""
    classes, eta_Y, eta_Z = CASES[name], 1.0, 0.7
    times = log_times(0.1, 1e3, 12)
    run = integrate(MeanField(plain(classes), eta_Y, eta_Z), times, reduce=False, save_decoder=True)
    small = integrate(of(classes, eta_Y, eta_Z), times, save_decoder=True)
    assert small.stats["steps"] == run.stats["steps"]
    # Where the classes of a query share no token, no logit moves: what remains is rounding.
    np.testing.assert_allclose(small.z, run.z, rtol=0, atol=1e-9 * np.abs(run.z).max() + 1e-13)
    np.testing.assert_allclose(small.attention, run.attention, rtol=0, atol=1e-9)
    np.testing.assert_allclose(small.Y, run.Y, rtol=0, atol=1e-9 * np.abs(run.Y).max())
    assert np.array_equal(small.decoder_rows, run.decoder_rows)
    assert np.array_equal(small.decoder_outputs, run.decoder_outputs)
    np.testing.assert_allclose(small.loss, run.loss, rtol=1e-9, atol=1e-12)
    assert small.status == "finished"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reduce", [True, False])
def test_one_class_is_that_of_the_full_run(name: str, reduce: bool) -> None:
    """Assert z, attention, entropy, gains and Y of the first class of each kind, from both kinds of runs."""
    classes = CASES[name]
    run = integrate(MeanField(classes, 1.0, 0.7), log_times(0.1, 1e3, 5), reduce=reduce, save_decoder=True)
    decoder = run.require_decoder()
    for kind in range(len(classes.kinds)):
        one, n, tokens = run.of_class(kind), classes.first_of_kind(kind), classes.tokens_of_kind(kind)
        assert np.array_equal(one.z[:, 0], run.z[:, 0][:, tokens])
        np.testing.assert_allclose(one.attention[:, 0], run.attention[:, n][:, tokens], rtol=1e-14)
        np.testing.assert_allclose(one.entropy()[:, 0], run.entropy()[:, n], rtol=1e-12)
        if classes.num_classes > 1:
            ours, theirs = one.entropy(distinct_only=True)[:, 0], run.entropy(distinct_only=True)[:, n]
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
        last = tokens.size - 1
        ours, theirs = one.relative_gain(0, last, 0), run.relative_gain(n, int(tokens[-1]), int(tokens[0]))
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        assert np.array_equal(one.growth_factor(0, 0), run.growth_factor(n, int(tokens[0])))
        assert np.array_equal(one.loss, run.loss)
        of_one, rows = one.require_decoder(), decoder.rows[tokens]
        for column, output in enumerate(of_one.outputs):
            like = [m for m in range(classes.num_classes) if m != n and _kind(classes, m) == output - 1]
            wanted = -1 if output < 0 else classes.next_token[n if output == 0 else like[-1]]
            position = np.flatnonzero(decoder.outputs == wanted)
            np.testing.assert_allclose(
                of_one.Y[:, :, column], decoder.Y[:, rows][:, :, position[0]], rtol=1e-12, atol=1e-12
            )
        others = {_kind(classes, m) for m in range(classes.num_classes) if m != n}
        rest = [-1] if classes.vocab_size > classes.num_classes else []
        assert of_one.outputs.tolist() == [0, *(1 + b for b in sorted(others)), *rest]


def _kind(classes: SymmetricClasses, n: int) -> int:
    """Kind of class n."""
    counts = [kind.classes_per_query for kind in classes.kinds]
    return int(np.repeat(np.arange(len(counts)), counts)[n % classes.classes_per_query])


def test_classes_one_by_one_have_no_kinds() -> None:
    run = integrate(MeanField(plain(syn_small()), 1.0, 1.0), [1.0])
    with pytest.raises(InputError, match="expected a run of symmetric classes"):
        run.of_class(0)
    with pytest.raises(InputError, match=r"expected kind to be a whole number in 0\.\.0"):
        integrate(MeanField(syn_small(), 1.0, 1.0), [1.0]).of_class(1)


@pytest.mark.parametrize("seed", range(12, 60))
def test_random_kinds_have_the_rates_of_all_classes(seed: int) -> None:
    """Assert names, copies, rates, loss and sums at a random state, against the system of all classes."""
    classes = random_symmetric_classes(seed)
    ours, full = of(classes), MeanField(plain(classes), 1.0, 0.7)
    places = ours.full_state(np.arange(ours.size))
    assert MeanField(classes, 1.0, 0.7).size == full.size == places.size
    assert np.array_equal(np.bincount(places), ours.quotient.copies)
    assert len({ours.value_name(i) for i in range(ours.size)}) == ours.size
    state = np.random.default_rng(seed).normal(size=ours.size)
    rate, full_rate, full_state = np.empty(ours.size), np.empty(full.size), ours.full_state(state)
    assert ours.write_rate(state, rate) == pytest.approx(full.write_rate(full_state, full_rate), rel=1e-13)
    np.testing.assert_allclose(ours.full_state(rate), full_rate, rtol=0, atol=1e-13 * np.abs(full_rate).max())
    for name, violation in full.invariants(full_state).items():
        assert ours.invariants(state)[name] == pytest.approx(violation, rel=1e-11)
        ours_sum, full_sum = ours.conserved_sums(state)[name], full.conserved_sums(full_state)[name]
        assert ours_sum.scale == pytest.approx(full_sum.scale, rel=1e-11)


def test_permuted_kinds_are_not_joined() -> None:
    """Assert right runs where kinds differ by an exchange of common tokens, which the kinds do not use."""
    pair = [ClassKind([0.1, 0.3], [0.6]), ClassKind([0.3, 0.1], [0.6])]
    classes = symmetric_classes(pair, vocab_size=9)
    assert reduced(MeanField(plain(classes), 1.0, 0.7)) is None
    run = integrate(MeanField(plain(classes), 1.0, 0.7), [1.0, 100.0], reduce=False)
    ours = integrate(of(classes), [1.0, 100.0])
    np.testing.assert_allclose(ours.z, run.z, rtol=0, atol=1e-10 * np.abs(run.z).max())


def test_runs_of_a_mean_field_take_it() -> None:
    """Assert no search and no layout: "auto" at large sizes, reduce=True at small ones, and the methods that do."""
    system = MeanField(syn_medium(10**6), 1.0, 1e-6)
    run = integrate(system, [1.0, 1e6])
    K = 2 * 10**6
    assert run.stats["state_size"] == 43
    assert run.stats["full_state_size"] == system.size == 10**6 + 10 * K + (1 + 10 * K) * (K + 1)
    assert not {"layout", "z_initial"} & set(vars(system))
    assert "P" not in vars(system.classes)
    small = MeanField(syn_small(), 1.0, 1.0)
    assert integrate(small, [1.0]).stats["state_size"] == small.size == 85
    assert integrate(small, [1.0], reduce=True).stats["state_size"] == 43
    assert integrate(MeanField(syn_small(), 1.0, 1.0, z_initial=np.zeros((2, 30))), [1.0], reduce=True).representatives
    for options in ({"z_initial": np.eye(2, 30)}, {"residual": True}):
        assert not MeanField(syn_small(), 1.0, 1.0, **options).carries_quotient
    # So fast an attention would take CVODE, which needs the state of all classes.
    fast = integrate(MeanField(single_common_token(10**9, 2, 0.3), 1.0, 1e5), [1e-6])
    assert fast.stats["compiled"]


# A step may put all of its error, rtol |y| sqrt(n), into one of n <= 19 values, |y| <= 35: 150 tolerances. The errors
# of a whole run, of 30 to 80 steps, may be little more.
ERROR_OF_A_RUN = 200 * 1e-8


def errors_of_a_run(K: int, by_copies: bool) -> tuple[float, float]:
    """Errors of ln(loss) and of attention at rtol = 1e-8, against a run at a tenthousandth of the tolerance."""
    kinds = [ClassKind([0.3], [0.2, 0.5], K), ClassKind([0.1], [0.9], K // 10, 2.0)]
    times = np.geomspace(K, 1e3 * K, 50)

    def run(rtol: float) -> Trajectory:
        system = MeanField(symmetric_classes(kinds, vocab_size=1000 * K), 1.0, 1.0 / K)
        small = reduced(system)
        assert isinstance(small, MeanFieldQuotient)
        assert small.size <= 19
        if by_copies:
            small.norm_weights = small.quotient.copies / small.quotient.copies.sum()
        return integrate(system, times, rtol=rtol, atol=1e-2 * rtol, reduce=True)

    rough, exact = run(1e-8), run(1e-12)
    of_kinds = [(rough.of_class(kind).attention, exact.of_class(kind).attention) for kind in range(2)]
    loss = float(np.abs(np.log(rough.loss / exact.loss)).max())
    return loss, max(float(np.abs(ours - theirs).max()) for ours, theirs in of_kinds)


@pytest.mark.parametrize("K", [10, 10**3, 10**5, 10**9])
def test_errors_do_not_grow_with_the_number_of_classes(K: int) -> None:
    """Assert errors of loss and attention below 200 tolerances (measured: up to 117, at K = 10^3)."""
    loss, attention = errors_of_a_run(K, by_copies=False)
    assert loss < ERROR_OF_A_RUN
    assert attention < ERROR_OF_A_RUN


def test_weights_by_copies_lose_the_classes() -> None:
    """Assert that the same test fails by a factor of 10^3 at 10^9 classes where the step control weighs by copies."""
    loss, attention = errors_of_a_run(10**9, by_copies=True)
    assert loss > 1e3 * ERROR_OF_A_RUN
    assert attention > 1e3 * ERROR_OF_A_RUN


def test_a_run_that_needs_every_class_says_so() -> None:
    """Assert one sentence, with what to do, from other methods, reduce=False, and what has no quotient."""
    system = MeanField(symmetric([0.3], [0.2, 0.5], 10**9, vocab_size=10**12), 1.0, 1e-9)
    for given in ({"method": "DOP853"}, {"method": "LSODA"}, {"method": "BDF"}, {"method": "CVODE"}, {"reduce": False}):
        name, value = next(iter(given.items()))
        expected = (
            f"expected method='auto' or 'compiled' and reduce='auto' or True for 1000000000 classes, received "
            f"{name}={value!r}, which needs every class"
        )
        with pytest.raises(InputError, match=re.escape(expected)):
            integrate(system, [1.0], **given)  # type: ignore[arg-type]
    for run in (lambda: descend(system, 10, 1.0), lambda: sgd(system.classes, 1.0, 1e-9, 10)):
        with pytest.raises(InputError, match=r"1000000000 classes, each by itself.*use integrate.*of_class"):
            run()


def test_a_run_of_every_class_is_made_where_it_fits() -> None:
    """Assert that the check concerns memory alone."""
    system = MeanField(symmetric([0.3], [0.2, 0.5], 10, vocab_size=100), 1.0, 1.0)
    assert integrate(system, [1.0], method="DOP853").success
    assert integrate(system, [1.0], reduce=False).stats["state_size"] == system.size


@pytest.mark.parametrize("K", [1, 2, 10**3, 10**6, 10**9])
def test_the_state_does_not_grow_with_the_number_of_classes(K: int) -> None:
    """Assert a state of at most eleven values, kept row sums, and the time of the transition at its law."""
    V, eta_Y = 10**12, 1.0
    if K > 1:
        law = float(transition_time_with_overlap(K, V, eta_Y, 0.09 / (0.09 + 0.29)))
    else:
        law = float(transition_time(K, V, eta_Y))
    classes = symmetric([0.3], [0.2, 0.5], K, vocab_size=V)
    system = MeanField(classes, eta_Y, 1e-6 / law)  # attention does not move
    times = np.linspace(0.5, 1.5, 201) * law
    run = integrate(system, times, reduce=True)
    assert run.status == "finished"
    assert run.stats["state_size"] <= 11
    alpha = np.exp(-run.loss)
    lead = np.log(alpha * (V - 1) / (1 - alpha))
    assert np.interp(1.0, lead * alpha, times) == pytest.approx(law, rel=1e-3)


@pytest.mark.parametrize("K", [10, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("share", [1e-5, 1e-3, 0.05])
def test_the_ladder_gap_follows_its_law_at_any_number_of_classes(K: int, share: float) -> None:
    """Assert the largest gap between the mean field, Eq. (10) and its leading beta, V = 10 K to 10^6 K, slow attention.

    Three independent routes: the integrated mean field, the quadrature of the orbits, and the closed form of the law.
    """
    distinct = np.array([0.4, 0.6]) * (1 - share)
    overlap = share**2 / (share**2 + distinct @ distinct)
    for V in (10 * K, 1000 * K, 10**6 * K):
        end = 2 * float(u_plus(V)) * K
        t, eta_Z = np.geomspace(1e-3 * end, end, 12), 1e-9 / end
        classes = symmetric_classes(ClassKind([share], distinct, K), vocab_size=V)
        run = integrate(MeanField(classes, 1.0, eta_Z), t, atol=1e-30, reduce=True)
        z = {"mean field": run.of_class().z[:, 0, 0]}
        for beta in ("exact", "leading"):
            z[beta] = single_common_token_orbit(t, distinct, share, K, V, 1.0, eta_Z, beta=beta).z_common
        gaps = [
            np.abs(z[coarse] - z[fine]).max() / np.abs(z[fine]).max()
            for fine, coarse in (("mean field", "exact"), ("exact", "leading"))
        ]
        assert max(gaps) == pytest.approx(largest_ladder_gap(t, 1.0, V, K, overlap), rel=1e-4), (V, gaps)


def test_files_and_datasets_of_large_classes_hold_one_class_of_each_kind(tmp_path: Path) -> None:
    """Assert a small file that reads back exactly, with events and Y, and a dataset, at K = 10^9."""
    kinds = [ClassKind([0.3], [0.2, 0.5], 10**9), ClassKind([0.1], [0.9], 10**8, 2.0)]
    classes = symmetric_classes(kinds, vocab_size=10**12)
    half = {"half": Event(lambda t, state: state.loss - 10.0)}
    for events in (None, half):
        run = integrate(MeanField(classes, 1.0, 1e-9), [0.0, 1e10, 1e12], events=events, save_decoder=True)
        path = run.save(tmp_path / "run.nc")
        assert path.stat().st_size < 50_000
        again = load(path)
        assert again.classes == run.classes
        assert len(again.events) == len(run.events) == (1 if events else 0)
        for kind in range(2):
            ours, theirs = again.of_class(kind), run.of_class(kind)
            for name in ("t", "z", "attention", "loss", "Y", "decoder_outputs"):
                assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
            assert [event.t for event in ours.events] == [event.t for event in theirs.events]
            for event, other in zip(ours.events, theirs.events, strict=True):
                assert np.array_equal(event.z_support, other.z_support)
        dataset = run.to_xarray()
        assert dataset.sizes == {"time": 3, "kind": 2, "token": 3}
        assert np.array_equal(dataset.attention[:, 0], run.of_class(0).attention[:, 0])
        assert np.isnan(dataset.z[:, 1, 2]).all()
        assert pickle.loads(pickle.dumps(run)).of_class(1).z.tolist() == run.of_class(1).z.tolist()
        for name in ("z", "attention", "z_support", "z_initial", "Y", "decoder_rows"):
            with pytest.raises(InputError, match="1100000000 classes, each by itself"):
                getattr(run, name)


def test_files_of_small_classes_hold_all_classes(tmp_path: Path) -> None:
    """Assert that a file read back has z, attention and Y of all classes, and those of a kind."""
    run = integrate(MeanField(syn_medium(3), 1.0, 1.0), [1.0, 100.0], reduce=True, save_decoder=True)
    again = load(run.save(tmp_path / "run.nc"))
    assert again.classes == run.classes
    for name in ("z", "z_initial", "attention", "Y", "decoder_rows", "loss"):
        assert np.array_equal(getattr(again, name), getattr(run, name)), name
    assert np.array_equal(again.of_class(0).z, run.of_class(0).z)
    assert run.to_xarray().equals(again.to_xarray())


def test_a_copy_with_other_logits_has_those(tmp_path: Path) -> None:
    run = integrate(MeanField(syn_medium(3), 1.0, 1.0), [1.0, 100.0], reduce=True)
    changed = replace(run, z_support=2 * run.z_support)
    assert np.array_equal(changed.z, 2 * run.z)
    assert np.array_equal(changed.of_class(0).z, 2 * run.of_class(0).z)


def test_copies_of_a_run_with_events(tmp_path: Path) -> None:
    """Assert that copies with other logits, by both ways, hold them in z, in one class, in events and in the file."""
    classes = symmetric_classes([ClassKind([0.3], [0.2, 0.5], 5 * 10**5)])
    assert classes.is_large
    event = Event(lambda t, state: state.loss - 3.0)
    run = integrate(MeanField(classes, 1.0, 1e-5), [1e3, 1e7], reduce=True, events={"loss": event})
    assert len(run.events) == 1
    assert run.changed(message="x").representatives is run.representatives
    own = run.of_class(0)
    for copied in (replace(run, message="x"), run.changed(z_support=1.0 * run.z_support)):
        assert np.array_equal(copied.of_class(0).z, own.z)
        assert np.array_equal(copied.of_class(0).events[0].z_support, own.events[0].z_support)
    changed = run.changed(z_support=2.0 * run.z_support)
    assert np.array_equal(changed.of_class(0).z, 2.0 * own.z)
    assert np.array_equal(load(changed.save(tmp_path / "run.nc")).z_support, 2.0 * run.z_support)


def test_weights_of_kinds_beyond_the_range_of_numbers() -> None:
    """Assert one sentence where the quotient of two weights is no number."""
    with pytest.raises(InputError, match="weights within a factor 1e307"):
        symmetric_classes([ClassKind([0.3], [0.7], 1, weight) for weight in (1e-308, 1e308)])
