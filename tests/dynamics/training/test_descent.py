"""Finite-step SGD against a plain numpy program, complex-step derivatives, PyTorch and the mean field."""

import inspect
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    SGD,
    SequenceClasses,
    sgd,
    sgd_runs,
    single_common_token,
    syn_small,
)
from snapdyn.dynamics.training import descent
from tests.dynamics.dense_reference import random_instance
from tests.dynamics.training.sgd_reference import (
    Array,
    Momentum,
    full_decoder,
    train,
)

INSTANCE = random_instance(1)
CLASSES = INSTANCE.classes()
# Several classes per next token and per query, and query tokens inside supports.
SHARED = random_instance(4, query=(0, 0, 1, 1, 0), next_token=(3, 3, 3, 1, 8)).classes()
OWN_QUERY = random_instance(8, query=(1, 5, 1, 0, 7)).classes()
ALL_OUTPUTS = random_instance(5, vocab_size=5, query=(0, 0, 1, 1, 4)).classes()


def random_start(classes: SequenceClasses, rows: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "Y": rng.normal(size=(rows, classes.vocab_size)),
        "z": rng.normal(size=(classes.queries.size, classes.num_tokens)),
    }


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch of one": {"batch_size": 1},
    "one token": {"seq_len": 1},
    "long sequences": {"seq_len": 100_000},
    "infinite sequences": {"seq_len": None},
    "gradient of the expectation": {"seq_len": None, "batch_size": None},
    "momentum": {"momentum": 0.9},
    "Adam": {"optimizer": "adam", "eta_Y": 0.1, "eta_Z": 0.05},
    "residual": {"residual": True},
    "residual, query in supports": {"classes": OWN_QUERY, "residual": True, "init": "uniform"},
    "residual, expectation": {"classes": OWN_QUERY, "residual": True, "seq_len": None, "batch_size": None},
    "residual, Adam": {"classes": OWN_QUERY, "residual": True, "optimizer": "adam", "eta_Y": 0.1, "eta_Z": 0.1},
    "uniform start": {"init": "uniform", "momentum": 0.9},
    "shared next tokens": {"classes": SHARED, "momentum": 0.9},
    "every output a next token": {"classes": ALL_OUTPUTS, "momentum": 0.9},
    "given arrays": {"init": random_start(CLASSES, 9)},
    "logits far apart": {"init": {"z": 900.0 * random_start(CLASSES, 9)["z"]}, "seq_len": 2},
}


def case(name: str, **changes: Any) -> SGD:
    settings = {
        "classes": CLASSES, "eta_Y": 1.5, "eta_Z": 0.7, "steps": 12, "batch_size": 7, "seq_len": 15, "seed": 3,
        "save_decoder": True,
    }  # fmt: skip
    return SGD(**{**settings, **CASES[name], **changes})


def difference(run: SGD, **route: Any) -> float:
    """Largest difference of Y, z and loss between the package and the plain program, over all steps."""
    ours = run.run()
    assert ours.status == "finished"
    Y = full_decoder(ours, run)
    reference = train(run, Y[0], ours.z[0], **route)
    rows = np.unique(np.append(run.classes.P.indices, run.classes.query if run.residual else []).astype(int))
    query, token = run.classes.z_coordinates
    return max(
        np.abs(Y - reference[0])[:, rows].max(),
        np.abs(ours.z - reference[1])[:, query, token].max(),
        np.abs(ours.loss - reference[2]).max(),
    )


# Each step adds a few ulp of values of order 10 (2e-15), and a gradient step at these rates stretches a
# difference at most by 1 + eta |Hessian| < 4, momentum less than 10 in sum: 12 steps give far less than 1e-9.
# Adam divides by sqrt(v) + eps: where a gradient is rounding alone it is amplified, by 1/eps = 1e8 at worst.
TOLERANCE = 1e-9


@pytest.mark.kernel
@pytest.mark.parametrize("name", CASES)
def test_trajectory_matches_plain_program(name: str) -> None:
    """Assert that Y, z and loss at every step are those of a dense numpy program fed the same counts."""
    assert difference(case(name)) < TOLERANCE


class Nesterov(Momentum):
    """Wrong here: x <- x - lr (g + mu b)."""

    def __call__(self, x: Array, g: Array) -> Array:
        super().__call__(x, g)
        return x - self.rate * (g + self.mu * self.buffer)


@pytest.mark.parametrize("name", [name for name in CASES if "momentum" in name or "Adam" in name])
def test_optimisers_match_torch(name: str) -> None:
    """Assert that torch's own optimisers, fed the plain program's gradients, make the same trajectory."""
    torch = pytest.importorskip("torch", reason="torch is not installed: its update rules are tested as documented")

    class Torch:
        def __init__(self, run: SGD, rate: float) -> None:
            self.run, self.rate, self.x = run, rate, None

        def __call__(self, x: Array, g: Array) -> Array:
            if self.x is None:
                self.x = torch.tensor(x, requires_grad=True)
                settings = {"lr": self.rate}
                if self.run.optimizer == "adam":
                    self.steps = torch.optim.Adam([self.x], **settings)
                else:
                    self.steps = torch.optim.SGD([self.x], momentum=self.run.momentum, **settings)
            self.x.grad = torch.tensor(g)
            self.steps.step()
            return np.array(self.x.detach().numpy())

    assert difference(case(name), optimizer=Torch) < TOLERANCE


def settings_of_several_runs() -> list[SGD]:
    return [case(name, seed=seed, steps=30) for name in ("uniform start", "plain", "Adam") for seed in (0, 1)]


@pytest.mark.parametrize("name", ["plain", "gradient of the expectation", "Adam"])
def test_record_selects_steps(name: str) -> None:
    """Assert that recording some steps keeps the bits of recording all, wherever the calls are cut."""
    every = case(name).run()
    assert every.t.tolist() == list(range(13))
    for record in ([0], [0, 5, 12], [3, 4]):
        some = case(name, record=record).run()
        assert some.t.tolist() == record
        for of in ("z_support", "loss", "Y"):
            np.testing.assert_array_equal(getattr(some, of), getattr(every, of)[record])
    assert case(name, steps=0).run().t.tolist() == [0.0]


def test_uniform_start_is_uniform() -> None:
    """Assert that z and Y start uniform in +-1/sqrt(V), all (Q, M) logits drawn, by Kolmogorov-Smirnov tests."""
    classes = syn_small()
    ours, other = sgd(classes, 1.0, 1.0, 2, seed=[0, 1], init="uniform", save_decoder=True)
    assert [run.parameters["seed"] for run in (ours, other)] == [0, 1]
    reach, Y = 1.0 / np.sqrt(classes.vocab_size), ours.require_decoder().Y[0]
    for values, scale, accepted in ((ours.z_initial, 1, True), (Y, 1, True), (Y, 1.2, False)):
        test = stats.kstest(values.ravel(), stats.uniform(-scale * reach, 2 * scale * reach).cdf)
        assert (test.pvalue > 0.001 / 3) == accepted
    assert np.unique([ours.z_initial, other.z_initial]).size == 2 * ours.z_initial.size
    moved = np.zeros(ours.z_initial.shape, bool)
    moved[classes.z_coordinates] = True
    assert ((ours.z[-1] == ours.z_initial) | moved).all()


@pytest.mark.kernel
def test_row_sums_are_kept() -> None:
    """Assert that SGD keeps the row sums of Y and z, and that the monitor is not given where they move."""
    for name in ("momentum", "uniform start", "residual, query in supports"):
        invariants = case(name).run().invariants
        assert set(invariants) == {"row sum of Y", "row sum of Z"}
        assert max(values.max() for values in invariants.values()) < 1e-12
    assert case("Adam").run().invariants == {}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"classes": single_common_token(4, 2, 0.3, 20), "eta_Y": 1e308, "batch_size": None, "seq_len": None},
            ["Y[token", "smaller eta_Y"],
        ),
        ({"eta_Z": 1e308, "init": random_start(CLASSES, 9)}, ["z[query", "smaller eta_Z"]),
    ],
)
def test_divergence_stops_with_the_record_so_far(settings: dict[str, Any], words: list[str]) -> None:
    """Assert that a run that overflows says at which step and where, and keeps finite records up to there."""
    ours, other = sgd_runs([case("momentum", steps=100, momentum=0.99, **settings), case("plain")], threads=2)
    assert (ours.status, other.status) == ("diverged", "finished")
    assert all(word in ours.message for word in [*words, f"step {ours.stats['steps']}"]), ours.message
    assert ours.t.size == ours.stats["steps"] < 100
    assert all(np.isfinite(values).all() for values in (ours.z, ours.loss, ours.require_decoder().Y))


def test_interruption_keeps_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that Ctrl-C between kernel calls returns what was recorded, and later runs do not start."""
    steps = descent.sgd_steps
    calls = []

    def interrupted(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return steps(*arguments)

    monkeypatch.setattr(descent, "OPERATIONS_AT_ONCE", 1)
    monkeypatch.setattr(descent, "sgd_steps", interrupted)
    first, second = sgd_runs([case("plain"), case("momentum")], threads=1)
    assert (first.status, second.status) == ("interrupted", "interrupted")
    assert "step 4" in first.message
    assert first.t.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert second.t.size == 0


BAD: dict[str, dict[str, Any]] = {
    "eta_Y": {"eta_Y": 0.0},
    "None for infinite": {"seq_len": 10**10},
    "give a batch_size or drop seq_len": {"batch_size": None, "seq_len": 20},
    "leave momentum out": {"momentum": 0.9, "optimizer": "adam"},
    "did you mean 'adam'": {"optimizer": "adan"},
    "at least one seed": {"seed": []},
    "from 0 to 12": {"record": [0, 99]},
    "record to increase": {"record": [3, 1]},
    "did you mean 'zeros'": {"init": "zero"},
    "received ['W']": {"init": {"W": np.zeros(3)}},
    "(9, 14)": {"init": {"Y": np.zeros((9, 3))}},
    "initial Y to be finite": {"init": {"Y": np.full((9, 14), np.nan)}},
    "start from zeros": {"classes": single_common_token(2, 2, 0.1, 10**9), "init": "uniform"},
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_plain_sentence(words: str) -> None:
    """Assert that bad settings raise InputError with one line that names what to change."""
    settings = {"classes": CLASSES, "eta_Y": 1.0, "eta_Z": 1.0, "steps": 12, **BAD[words]}
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        sgd(**settings)
    assert "\n" not in str(caught.value)


def test_sgd_takes_the_settings_of_a_run() -> None:
    """Assert that sgd has the defaults of SGD, describes its other settings, and refuses what is none."""
    own, stated = inspect.signature(sgd).parameters, inspect.signature(SGD).parameters
    named = [name for name in own if name in stated]
    assert all(own[name].default == stated[name].default for name in named)
    assert all(f"`{name}`" in (inspect.getdoc(sgd) or "") for name in stated.keys() - {*named})
    with pytest.raises(TypeError, match="learning_rate"):
        sgd(CLASSES, 1.0, 1.0, 1, learning_rate=1.0)


def test_threads_order_and_cuts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert the same bits from one thread and two, in reversed order, and from kernel calls of one step each.

    Other seeds give other bits; progress counts the runs.
    """
    runs, seen = settings_of_several_runs(), []
    one = sgd_runs(runs, threads=1, progress=lambda *count: seen.append(count))
    assert seen == [(done, 6) for done in range(1, 7)]
    routes = [sgd_runs(runs, threads=2), sgd_runs(runs[::-1], threads=2)[::-1]]
    monkeypatch.setattr(descent, "OPERATIONS_AT_ONCE", 1)
    routes.append([run.run() for run in runs])
    for other in routes:
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.z_support, b.z_support)
            np.testing.assert_array_equal(a.loss, b.loss)
            np.testing.assert_array_equal(a.Y, b.Y)
    assert not np.array_equal(one[0].loss, one[1].loss)


def test_a_wrong_update_rule_is_rejected() -> None:
    """Assert that Nesterov's rule differs by a million tolerances: the comparison can fail."""
    assert difference(case("momentum"), optimizer=Nesterov) > 1e6 * TOLERANCE


SETTINGS: dict[str, dict[str, Any]] = {
    "batches": {"batch_size": 3, "seq_len": 20},
    "momentum": {"momentum": 0.9},
    "Adam": {"optimizer": "adam"},
    "expectation": {"batch_size": None, "reduce": True},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_schedules(settings: dict[str, Any]) -> None:
    """Assert bits: ones are no schedule, 1/2 at twice the rates is 1, a multiplier of 0 keeps the state.

    Factors of 2 do not round. A multiplier that acts a step late or early, or on one rate only, fails.
    """
    classes = syn_small()

    def z(rate: float, **options: Any) -> Array:
        run: Any = sgd(classes, rate, 2 * rate, 40, **settings, **options)
        return np.concatenate([run.z_support, run.loss[:, None]], axis=1)

    plain = z(0.25)
    assert np.array_equal(z(0.25, schedule=np.ones(40)), plain)
    assert np.array_equal(z(0.5, schedule=lambda i: np.full(i.size, 0.5)), plain)
    late = z(0.5, schedule=np.r_[np.full(10, 0.5), np.zeros(5), np.ones(25)])
    assert np.array_equal(late[:11], plain[:11])
    assert np.array_equal(late[10, :-1], late[15, :-1])
    assert not np.array_equal(late[15, :-1], late[16, :-1])
    assert not np.array_equal(late[9, :-1], late[10, :-1])
    with pytest.raises(InputError, match=r"schedule of shape \(40,\), received \(39,\)"):
        sgd(classes, 1.0, 1.0, 40, schedule=np.full(39, 0.5))
