"""The ladder: rungs on one clock, gaps as defined, a wrong rung is named, noise is not."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from snapdyn import analytic
from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    MeanField,
    SequenceClasses,
    Trajectory,
    integrate,
    log_times,
    momentum_clock,
    sgd,
    syn_medium,
)
from snapdyn.validation import Ladder, ladder
from snapdyn.validation.phases import attention_observables
from snapdyn.validation.rungs.build import climb
from snapdyn.validation.rungs.run import (
    BRANCHES,
    CLOSED,
    DESCENT,
    EXACT,
    FINITE_T,
    LEADING,
    MEAN_FIELD,
    MODIFIED,
    ORBIT,
    ORIGINAL,
    REDUCED,
    SGD,
)
from tests.validation.rungs.helpers import CLASSES, ETA, ETA_Z, TIMES, K, whole


def _names(rungs: Ladder) -> list[str]:
    return [found.rung for found in rungs.breaks()]


def test_all_rungs_stand_in_order_on_one_clock() -> None:
    """Assert that the rungs come in the ladder's order, all on the same whole steps nearest to the times asked for."""
    assert [rung.name for rung in whole().rungs] == [name for name in BRANCHES["attention"] if name != FINITE_T]
    assert "seq_len" in whole().absent[FINITE_T]
    assert np.array_equal(whole().t, np.unique(np.round(TIMES)))
    assert all(np.array_equal(run.t, whole().t) for rung in whole().rungs for run in rung.runs)
    assert len(whole()[SGD].runs) == 16


def test_the_true_ladder_breaks_only_where_theory_says() -> None:
    """Assert that at V = K, where V E' is small, only the leading beta breaks (its gap is 1/(1 + V E')), and why."""
    assert _names(whole()) == [LEADING]
    first = whole().first_break()
    assert (first.finer, first.tolerance) == (EXACT, 0.1)
    assert "1/V" in first.why
    assert whole().first_break(100.0) is None
    assert float(whole().gaps.gap.sel(rung=[ORBIT, CLOSED]).max()) < 1e-7
    for name in (ORBIT, CLOSED):  # 20 % off
        right = whole()[name].runs[0]
        assert name in _names(whole().with_rung(name, right.changed(z_support=1.2 * right.z_support)))
    x = CLASSES.vocab_size * CLASSES.E_prime()[0, 1]
    assert float(whole().gaps.gap.sel(rung=LEADING, observable="z")[-1]) == pytest.approx(1 / (1 + x), rel=0.02)


WRONG: dict[str, tuple[str, Callable[[], list[Trajectory]]]] = {
    "mean field K times too fast": (MEAN_FIELD, lambda: [integrate(MeanField(CLASSES, ETA, K * ETA_Z), whole().t)]),
    "descent with the sign of z flipped": (
        DESCENT,
        lambda: [whole()[DESCENT].runs[0].changed(z_support=-whole()[DESCENT].runs[0].z_support)],
    ),
    "descent at twice the rate": (
        DESCENT,
        lambda: [sgd(CLASSES, ETA, 2 * ETA_Z, int(whole().t[-1]), None, record=whole().t.astype(int))],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_rung_is_named(case: str) -> None:
    """Assert that a wrong theory in the place of a rung makes that rung the first break."""
    name, runs = WRONG[case]
    broken = whole().with_rung(name, *runs()).first_break()
    assert broken.rung == name


def test_the_printed_premise_breaks_at_its_rung() -> None:
    """Assert that the printed forms of (13) and (124) break where the consistent ones do not (F1, F3)."""
    arguments = CLASSES, ETA, ETA_Z, whole().t
    right, printed = (ladder(*arguments, 0.1, seeds=0, max_steps=1, form=form) for form in ("consistent", "printed"))
    assert set(_names(printed)) - set(_names(right)) == {REDUCED, CLOSED}


def test_finite_length_is_a_rung_and_short_sequences_break_it() -> None:
    """Assert that T-1 = 10 breaks at the step to infinite T, and that T-1 = 1e6 does not."""
    for seq_len, broken in ((10, True), (1_000_000, False)):
        found = ladder(CLASSES, ETA, ETA_Z, log_times(10, 1500, 8), 0.1, seeds=12, seq_len=seq_len, batch_size=16)
        assert [rung.name for rung in found.rungs[:2]] == [FINITE_T, SGD]
        assert (SGD in _names(found)) is broken


def test_momentum_runs_on_the_build_up_clock() -> None:
    """Assert that with momentum times are the clock of whole steps, and that the first-order clock is rejected."""
    mu, asked = 0.9, np.array([1.0, 30.0, 400.0, 3000.0])
    found = ladder(CLASSES, 0.01, 0.01, asked, 0.05, seeds=0, momentum=mu)
    steps = [int(np.argmin(np.abs(momentum_clock(np.arange(400), mu) - t))) for t in asked]
    assert np.array_equal(found.t, momentum_clock(steps, mu))
    assert found.absent[SGD] == "seeds = 0"
    assert MEAN_FIELD not in _names(found)
    plain = integrate(MeanField(CLASSES, 0.01, 0.01), np.array(steps, dtype=float))
    assert MEAN_FIELD in _names(found.with_rung(MEAN_FIELD, plain.changed(t=found.t)))


def test_rungs_that_do_not_apply_are_named_with_the_reason() -> None:
    """Assert the reason of every absent rung: shared next tokens, other profiles, too many steps, no seeds."""
    shared = SequenceClasses([[0.5, 0.5, 0], [0.2, 0, 0.8]], [0, 0], next_token=[1, 1], vocab_size=4)
    found = ladder(shared, 0.1, 0.1, [1.0, 10.0, 100.0], seeds=2)
    assert "next token" in found.absent[EXACT]
    assert [rung.name for rung in found.rungs] == [SGD, DESCENT, MEAN_FIELD]
    decoder = ladder(shared, 0.1, 1e-7, [1.0, 10.0, 100.0], seeds=0, branch="decoder")
    assert "next token" in decoder.absent[MODIFIED]
    assert float(decoder.gaps.gap.sel(rung=ORIGINAL).max()) < 1e-5
    late = ladder(syn_medium(3), 0.1, 0.1, log_times(1, 1e5, 5), max_steps=1000)
    assert "max_steps" in late.absent[SGD]
    assert "max_steps" in late.absent[DESCENT]
    assert "one common token" in late.absent[REDUCED]
    with pytest.raises(InputError, match="does not apply"):
        late[REDUCED]


@cache
def decoder_ladder() -> Ladder:
    """The ladder of the decoder alone, attention slow."""
    return ladder(CLASSES, ETA, 1e-6 * ETA, TIMES, 0.02, seeds=6, batch_size=64, branch="decoder")


def test_decoder_branch_observes_logits_loss_and_speed() -> None:
    """Assert the branch's observables against routes of their own, on every kind of rung.

    Logits: dense F^T Y with Y from the trajectory; loss: the kernel's (flows) and descent's; speed: (85).
    """
    assert [rung.name for rung in decoder_ladder().rungs] == [name for name in BRANCHES["decoder"] if name != FINITE_T]
    P = CLASSES.P.toarray()
    f = P / np.linalg.norm(P, axis=1, keepdims=True)
    for name in (SGD, DESCENT, MEAN_FIELD, ORIGINAL, MODIFIED):
        run = decoder_ladder()[name].runs[0]
        decoder = run.require_decoder()
        outputs = [list(decoder.outputs).index(k) for k in range(K)]
        dense = f @ decoder.Y[:, decoder.rows][:, :, outputs]  # z has moved by 1e-5 at most: eta_Z/eta_Y = 1e-6
        found = decoder_ladder()[name].observe(run)
        assert found["logits"] == pytest.approx(dense.reshape(len(dense), -1), abs=1e-4)
        if name != SGD:  # there the loss is that of a batch
            assert found["loss"].mean(axis=1) == pytest.approx(run.loss, rel=1e-9)
    for name in (MODIFIED, CLOSED):
        speed = decoder_ladder()[name].observables["speed"]
        assert speed[:, 0] == pytest.approx(analytic.gamma(decoder_ladder().t, ETA, K, K), rel=1e-6)


def test_an_unfinished_run_gives_its_message_and_ctrl_c_goes_up() -> None:
    """Assert that a run that diverged leaves its message as the reason, and that an interrupted one interrupts."""
    run = whole()[DESCENT].runs[0]
    diverged = run.changed(status="diverged", message="diverged at step 3")
    plans = (("first", "", lambda: [run, diverged]), ("second", "", lambda: [run]))
    rungs, absent = climb(plans, attention_observables)
    assert absent == {"first": "diverged at step 3"}
    assert [rung.runs for rung in rungs] == [(run,)]
    with pytest.raises(KeyboardInterrupt):
        climb([("third", "", lambda: [run.changed(status="interrupted")])], attention_observables)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": 1}, "at least 2"),
        ({"branch": "decodr"}, "did you mean 'decoder'"),
        # Refused inside a rung, which must not pass for the rung's absence.
        ({"batch_size": 10**9}, "batch_size"),
        ({"seq_len": 10**12}, "seq_len"),
    ],
)
def test_bad_input_is_named(arguments: dict, message: str) -> None:
    """Assert one sentence for arguments outside their range."""
    with pytest.raises(InputError, match=message):
        ladder(**{"classes": CLASSES, "eta_Y": ETA, "eta_Z": ETA, "t_eval": [1.0, 2.0], "seeds": 2} | arguments)


def test_wrong_names_and_wrong_times_are_refused() -> None:
    """Assert that an unknown rung is named with the nearest, and that runs on other times are refused."""
    with pytest.raises(InputError, match="did you mean 'mean field'"):
        whole()["meanfield"]
    with pytest.raises(InputError, match="own times"):
        whole().with_rung(MEAN_FIELD, integrate(MeanField(CLASSES, ETA, ETA_Z), [1.0]))


def test_steps_that_fit_into_no_memory_are_refused() -> None:
    with pytest.raises(InputError, match=r"^expected the clock of 1e\+12 steps to fit into the free memory"):
        ladder(CLASSES, 1e-3, 1e-3, [10.0, 1e12], max_steps=10**15)
