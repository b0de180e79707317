"""Equivalent classes in any number, against the mean field of all of them."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    ClassKind,
    Event,
    MeanField,
    SymmetricClasses,
    Trajectory,
    integrate,
    load,
    log_times,
    single_common_token,
    symmetric_classes,
    syn_medium,
    syn_small,
)
from snapdyn.dynamics.systems.reduction import reduced
from tests.dynamics.systems.helpers import plain, random_symmetric_classes


def symmetric(common: list[float], distinct: list[float], *numbers: int, **options: int) -> SymmetricClasses:
    return symmetric_classes(ClassKind(common, distinct, *numbers), **options)


CASES = {
    **{f"K = {K}": single_common_token(K, 3, 0.3, 200) for K in (2, 7)},
    "V = K": symmetric([0.4], [0.6], 2, vocab_size=2),
    "one class": symmetric([0.2], [0.8], vocab_size=9),
    "no common token, one other output": symmetric([], [0.2, 0.8], 2, vocab_size=3),
    "Syn-Small": syn_small(),
    "Syn-Medium": syn_medium(3),
    **{f"random {seed}": random_symmetric_classes(seed) for seed in range(5)},
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_mean_field_of_all_classes(name: str) -> None:
    """Assert equal steps, and all observables of every class to rounding, against every class by itself."""
    classes, eta_Y, eta_Z = CASES[name], 1.0, 0.7
    times = log_times(0.1, 1e3, 12)
    run = integrate(MeanField(plain(classes), eta_Y, eta_Z), times, reduce=False, save_decoder=True)
    small = integrate(MeanField(classes, eta_Y, eta_Z), times, save_decoder=True, reduce=True)
    assert (small.status, small.stats["steps"]) == ("finished", run.stats["steps"])
    # Where the classes of a query share no token, no logit moves: what remains is rounding.
    np.testing.assert_allclose(small.z, run.z, rtol=0, atol=1e-9 * np.abs(run.z).max() + 1e-13)
    np.testing.assert_allclose(small.attention, run.attention, rtol=0, atol=1e-9)
    np.testing.assert_allclose(small.Y, run.Y, rtol=0, atol=1e-9 * np.abs(run.Y).max())
    assert np.array_equal(small.decoder_rows, run.decoder_rows)
    assert np.array_equal(small.decoder_outputs, run.decoder_outputs)
    np.testing.assert_allclose(small.loss, run.loss, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reduce", [True, False])
def test_one_class_is_that_of_the_full_run(name: str, reduce: bool) -> None:
    """Assert z, attention, entropy, gains and Y of the first class of each kind, from both kinds of runs."""
    classes = CASES[name]
    run = integrate(MeanField(classes, 1.0, 0.7), log_times(0.1, 1e3, 5), reduce=reduce, save_decoder=True)
    decoder, kind_of_class = run.require_decoder(), [_kind(classes, m) for m in range(classes.num_classes)]
    for kind in range(len(classes.kinds)):
        one, n, tokens = run.of_class(kind), classes.first_of_kind(kind), classes.tokens_of_kind(kind)
        first, last = int(tokens[0]), int(tokens[-1])
        # Columns: the class's own next token, one for the other classes of each kind, and one for the other outputs.
        others = {kind_of_class[m]: m for m in range(classes.num_classes) if m != n}
        rest = [-1] if classes.vocab_size > classes.num_classes else []
        wanted = [classes.next_token[n], *(classes.next_token[others[b]] for b in sorted(others)), *rest]
        columns = [int(np.flatnonzero(decoder.outputs == output)[0]) for output in wanted]
        of_one = one.require_decoder()
        assert of_one.outputs.tolist() == [0, *(1 + b for b in sorted(others)), *rest]
        pairs = [
            (one.loss, run.loss),
            (one.z[:, 0], run.z[:, 0][:, tokens]),
            (one.attention[:, 0], run.attention[:, n][:, tokens]),
            (one.entropy()[:, 0], run.entropy()[:, n]),
            (one.relative_gain(0, tokens.size - 1, 0), run.relative_gain(n, last, first)),
            (one.growth_factor(0, 0), run.growth_factor(n, first)),
            (of_one.Y, decoder.Y[:, decoder.rows[tokens]][:, :, columns]),
            (one.observable("speed")[:, 0], run.observable("speed")[:, n]),
        ]
        if classes.num_classes > 1:
            pairs.append((one.entropy(distinct_only=True)[:, 0], run.entropy(distinct_only=True)[:, n]))
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
        with pytest.raises(InputError, match="received that of one class"):
            one.observable("class_loss")


def _kind(classes: SymmetricClasses, n: int) -> int:
    """Kind of class n."""
    counts = [kind.classes_per_query for kind in classes.kinds]
    return int(np.repeat(np.arange(len(counts)), counts)[n % classes.classes_per_query])


def test_classes_one_by_one_have_no_kinds() -> None:
    """Assert one sentence for a run of classes one by one, and for a kind that there is not."""
    run = integrate(MeanField(plain(syn_small()), 1.0, 1.0), [1.0])
    with pytest.raises(InputError, match="a run of symmetric classes"):
        run.of_class(0)
    with pytest.raises(InputError, match="kind to be a whole number"):
        integrate(MeanField(syn_small(), 1.0, 1.0), [1.0]).of_class(1)


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
        assert isinstance(small, MeanField)
        assert small.quotient is not None
        assert small.size <= 19
        if by_copies:
            small.norm_weights = small.quotient.lists.copies / small.quotient.lists.copies.sum()
        return integrate(system, times, rtol=rtol, atol=1e-2 * rtol, reduce=True)

    rough, exact = run(1e-8), run(1e-12)
    of_kinds = [(rough.of_class(kind).attention, exact.of_class(kind).attention) for kind in range(2)]
    loss = float(np.abs(np.log(rough.loss / exact.loss)).max())
    return loss, max(float(np.abs(ours - theirs).max()) for ours, theirs in of_kinds)


@pytest.mark.parametrize("K", [10**3, 10**9])
def test_errors_do_not_grow_with_the_number_of_classes(K: int) -> None:
    """Assert errors of loss and attention below 200 tolerances (measured: up to 117, at K = 10^3).

    Where the step control weighs by copies, they are a factor of 10^3 above at 10^9 classes.
    """
    assert max(errors_of_a_run(K, by_copies=False)) < ERROR_OF_A_RUN
    if K == 10**9:
        assert min(errors_of_a_run(K, by_copies=True)) > 1e3 * ERROR_OF_A_RUN


def test_files_and_datasets_of_large_classes_hold_one_class_of_each_kind(tmp_path: Path) -> None:
    """Assert a small file that reads back exactly, with events and Y, a pickle, and a dataset, at K = 10^9."""
    kinds = [ClassKind([0.3], [0.2, 0.5], 10**9), ClassKind([0.1], [0.9], 10**8, 2.0)]
    classes = symmetric_classes(kinds, vocab_size=10**12)
    half = {"half": Event(lambda t, state: state.loss - 10.0)}
    run = integrate(MeanField(classes, 1.0, 1e-9), [0.0, 1e10, 1e12], events=half, save_decoder=True)
    path = run.save(tmp_path / "run.nc")
    assert path.stat().st_size < 50_000
    for again in (load(path), pickle.loads(pickle.dumps(run))):
        assert again.classes == run.classes
        for kind in range(2):
            ours, theirs = again.of_class(kind), run.of_class(kind)
            for name in ("t", "z", "attention", "loss", "Y", "decoder_outputs"):
                assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
            assert len(theirs.events) == 1
            assert ours.events[0].t == theirs.events[0].t
            assert np.array_equal(ours.events[0].z_support, theirs.events[0].z_support)
    dataset = run.to_xarray()
    assert dataset.sizes == {"time": 3, "kind": 2, "token": 3}
    assert np.array_equal(dataset.attention[:, 0], run.of_class(0).attention[:, 0])
    assert np.isnan(dataset.z[:, 1, 2]).all()
    for name in ("z", "attention", "z_support", "z_initial", "Y", "decoder_rows"):
        with pytest.raises(InputError, match="1100000000 classes, each by itself"):
            getattr(run, name)
