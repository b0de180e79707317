"""Calls of public functions with one or two odd arguments: a result, or one sentence."""

import inspect
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import snapdyn as sd
from snapdyn import analytic, dynamics, errors, figures, validation
from snapdyn.validation.pictures import Line, Map
from tests.fuzz.odd_values import ODD

# A call that takes longer counts as one that hangs; the first call of a kernel compiles it.
SECONDS = 120
# Integration at extreme rates may take days. It is stopped as by Ctrl-C after so many seconds.
PATIENCE = 1
# Calls that would take long, and so name what does not exist.
REFUSED = ("load_claims", "train_transformer", "write", "compute", "draw")


class Hangs(BaseException):
    """A call has taken SECONDS."""


@dataclass(frozen=True)
class Call:
    """A callable with arguments that it takes, and whether it integrates, or verifies, for as long as these say.

    `then` uses what the callable returns.
    """

    function: Callable[..., Any]
    given: dict[str, Any]
    integrates: bool = False
    then: Callable[[Any], Any] = lambda result: None

    @property
    def arguments(self) -> dict[str, Any]:
        """What is given, and the defaults of all other arguments."""
        taken = inspect.signature(self.function).parameters.values()
        return {each.name: each.default for each in taken if each.default is not each.empty} | self.given


@cache
def classes() -> sd.SequenceClasses:
    return sd.single_common_token(2, 1, 0.3, vocab_size=10)


@cache
def trajectory() -> sd.Trajectory:
    return sd.integrate(sd.MeanField(classes(), 1.0, 1.0), [0.0, 1.0, 10.0], save_decoder=True)


def nothing(*arguments: object) -> None:
    """Measure, draw or report nothing."""


def integrated(eta_Y: float, eta_Z: float) -> sd.Trajectory:
    return sd.integrate(sd.MeanField(classes(), eta_Y, eta_Z), [1.0])


def calls(folder: Path) -> dict[str, Call]:
    """Public callables by name, each with arguments that give a result."""
    text = folder / "text.txt"
    text.write_text("one two three two one three\n" * 40)
    saved = trajectory().save(folder / "run.nc")
    rates = {"eta_Y": 1.0, "eta_Z": 0.5}
    visits = {"s": 1.0, "eta_Y": 1.0, "vocab_size": 10}
    steps = {"t": 1.0, "eta_Y": 1.0, "vocab_size": 10, "num_classes": 2}
    growth = {**steps, "eta_Z": 0.5, "rho0": 1.5}
    overlap = {"num_classes": 5, "vocab_size": 1000, "overlap": 0.4}
    over_time = {**overlap, "t": [1.0, 10.0], "eta_Y": 1.0}
    of_classes = {"classes": classes(), **rates}
    training = {**of_classes, "steps": 5, "batch_size": 2, "seq_len": 7, "momentum": 0.5, "record": [0, 5]}
    system = sd.MeanField(**of_classes)
    of_solver = {"system": system, "t_eval": [1.0, 2.0], "rtol": 1e-6}
    line = Line("line", np.arange(2.0), np.arange(2.0))
    family = sd.Family("two", num_classes=(2, 2))
    drift = {"x": 1.0, "num_classes": 2, "rho0": 20.0, "wbar": 0.36, "wbar_slope": 0.05}
    of_profile = {"Gamma": 10.0, "num_classes": 2, "rho0": 5.0, "profile": analytic.distinct_profile([0.2, 0.3]),
                  "vocab_size": 10}  # fmt: skip
    z = {"z": np.zeros((1, 3))}
    closed_forms = {
        "h": visits,
        "error_norm": visits,
        "gamma": steps,
        "gamma_integral": steps,
        "discrete_h": {"num_steps": 3, "eta_Y": 1.0, "vocab_size": 10},
        "common_token_logit": growth,
        "xi": growth,
        "growth_exponent": growth,
        "growth_exponent_pieces": growth,
        **{name: {"vocab_size": 10} for name in ("u_minus", "u_plus", "u_peak", "omega_1")},
        "transition_time": {"num_classes": 2, "vocab_size": 10, "eta_Y": 1.0},
        "transition_time_with_overlap": {**overlap, "eta_Y": 1.0},
        "first_ladder_gaps": overlap,
        **{name: over_time for name in ("ladder_gaps", "largest_ladder_gap", "overlap_decoder")},
        "relative_gain": {"initial_gain": 0.5, "growth_of_logit": 0.2},
        "distinct_profile": {"distinct_probabilities": [0.2, 0.3]},
        "speed_coefficients": {"E_prime": [[0.0, 0.1], [0.1, 0.0]], "vocab_size": 50},
        "growth_exponent_of_profile": of_profile,
        "bounds_of_growth": of_profile,
        "growth_and_common_logit": {"Gamma": 10.0, "num_classes": 2, "rho0": 5.0, "wbar": 0.36, "vocab_size": 10},
        "growth_exponent_with_drift": drift,
        "error_of_consistent_form": drift,
        "single_common_token_orbit": {
            "t": [1.0, 10.0], "distinct_probabilities": [0.2, 0.3], "common_probability": 0.5, "num_classes": 3,
            "vocab_size": 50, **rates,
        },
    }  # fmt: skip
    run, token, instance = trajectory(), {"n": 0, "l": 1}, family.draw(0, 0)
    evidence = [getattr(sd.Evidence(), role) for role in ("holds", "corrected", "outside", "control")]
    of_class = ("support", "check_class", "distinct_tokens", "common_tokens")
    of_logits = ("check_z", "attention_entries", "decoder_inputs", "gram", "E", "E_prime", "eigenvalues")
    quick = [
        *(Call(getattr(analytic, name), given) for name, given in closed_forms.items()),
        *(Call(getattr(classes(), name), {"n": 0}) for name in of_class),
        *(Call(getattr(classes(), name), z) for name in of_logits),
        *(Call(role, {"what": "error", "rung": "closed form", "measured": 1.0, "at_most": 2.0}) for role in evidence),
        Call(run.entropy, {}),
        Call(run.token_attention, token),
        Call(run.relative_gain, {**token, "l0": 0}),
        Call(run.growth_factor, token),
        Call(run.save, {"path": folder / "saved.nc"}),
        Call(
            sd.SequenceClasses,
            {"P": [[0.4, 0.6, 0.0], [0.5, 0.0, 0.5]], "query": [5, 5], "next_token": [0, 1], "prior": [1.0, 2.0],
             "vocab_size": 10},
        ),
        Call(sd.syn_medium, {"num_queries": 2}),
        Call(sd.single_common_token, {"num_classes": 2, "num_distinct": 2, "common_probability": 0.3, "vocab_size": 10}),
        Call(sd.random_classes, {"num_classes": 3, "num_common": 1, "num_distinct": 2, "vocab_size": 20}),
        Call(sd.from_text, {"paths": text, "window": 2, "min_count": 2, "min_token_count": 1, "max_classes": 10}),
        Call(sd.log_times, {"first": 1.0, "last": 10.0, "count": 3}),
        Call(dynamics.momentum_clock, {"steps": [1.0, 2.0], "momentum": 0.5}),
        Call(sd.MeanField, of_classes),
        Call(sd.FrozenDecoder, {"classes": classes(), "eta_Y": 1.0}),
        Call(sd.ModifiedDecoder, of_classes),
        Call(sd.FiniteLengthMeanField, {**of_classes, "seq_len": 100}),
        Call(sd.sgd, {**training, "threads": 1}),
        Call(sd.SGD, training, then=lambda made: made.run()),
        Call(sd.sgd_runs, {"runs": [sd.SGD(**training)], "threads": 1}),
        Call(sd.fluctuations(classes(), 0.1, 0.1, [0.0]).band, {}),
        Call(sd.load, {"path": saved}),
        Call(validation.load_claims, {"path": folder / "none.py"}),
        Call(sd.train_transformer, {"paths": folder / "none", "learning_rate": 0.1}),
        Call(sd.validate, {"only": ["lemma13"], "jobs": 1}),
        Call(sd.register, {"entry": figures.FigureEntry("f", "F", "f.", nothing, nothing)}),
        Call(figures.FigureEntry, {"id": "f", "title": "F", "caption": "f.", "compute": nothing, "draw": nothing}),
        Call(sd.claim, {"id": "c", "source": "own", "title": "C", "statement": "c"}, then=lambda made: made(nothing)),
        Call(sd.Observable, {"name": "o", "label": "o", "unit": "1", "values": nothing}),
        Call(sd.Event, {"function": nothing}),
        Call(lambda eta, arms: sd.Box(eta=eta, arms=arms), {"eta": (0.1, 1.0, "log"), "arms": (2, 10)}),
        Call(sd.Evidence, {}),
        Call(sd.Measured, {"value": 1.0, "at_most": 2.0}),
        Call(sd.Requirement, {"name": "r", "required": "Q = 1", "measure": nothing, "at_most": 1.0}),
        Call(sd.Property, {"name": "p", "rung": "SGD", "measure": nothing, "domain": family, "evaluations": (1, 2)}),
        Call(sd.Family, {"name": "two", "num_classes": (2, 2)}, then=lambda made: made.draw(0, 0)),
        Call(family.draw, {"seed": 0, "number": 0}),
        Call(sd.Instance.of, {**of_classes, "t_end": 10.0}),
        Call(
            sd.Instance,
            {entry.name: getattr(instance, entry.name) for entry in fields(instance) if entry.init},
            then=lambda made: made.correlation,
        ),
        Call(Line, {"label": "line", "x": [1.0], "y": [2.0]}),
        Call(sd.Picture, {"xlabel": "t", "ylabel": "z", "lines": (line,), "verticals": (("t0", 1.0),)}),
        Call(
            Map,
            {"title": "m", "xlabel": "x", "ylabel": "y", "quantity": "q", "x": [1.0, 2.0], "y": [1.0],
             "violation": [[0.0, 1.0]], "threshold": 0.5, "boundaries": (line,)},
        ),
        Call(validation.fit_order, {"x": [0.1, 0.2, 0.4, 0.8], "y": [0.1, 0.2, 0.4, 0.8]}),
        Call(validation.equation_text, {"rows": ()}),
        Call(figures.write, {"ids": ["none"], "out": folder / "figures", "width": 5.0, "style": "icml"}),
        Call(figures.compute, {"id": "none"}),
        Call(figures.draw, {"id": "none", "dataset": xarray.Dataset(), "width": 5.0, "style": "icml"}),
    ]  # fmt: skip
    integrating = [
        Call(
            sd.SingleCommonToken,
            {"num_classes": 2, "vocab_size": 10, **rates, "rho0": 2.0},
            then=lambda made: sd.integrate(made, [1.0, 2.0]),
        ),
        Call(sd.integrate, of_solver),
        Call(integrated, rates),
        Call(dynamics.whole_run, of_solver),
        Call(sd.integrate_many, {"systems": [system], "t_eval": [1.0], "threads": 1, "rtol": 1e-6}),
        Call(sd.fluctuations, {**of_classes, "t_eval": [0.0, 1.0], "rtol": 1e-4}),
        Call(sd.ladder, {**of_classes, "t_eval": [1.0, 2.0], "seeds": 2, "max_steps": 100}),
        Call(sd.check, {**of_classes, "t_end": 10.0, "only": "lemma13"}),
        Call(
            sd.boundary,
            {"claim": "lemma13", "classes": classes(), "axes": {"eta_Y": [1.0, 2.0], "eta_Z": [1.0, 2.0]},
             "t_end": 10.0},
        ),
        Call(validation.equation_table, {"results": ()}),
    ]  # fmt: skip
    named = {each.function.__qualname__: each for each in quick}
    return named | {each.function.__qualname__: replace(each, integrates=True) for each in integrating}


@contextmanager
def limited_time(seconds: float, error: BaseException) -> Iterator[None]:
    """Raise the error after some seconds."""

    def stop(*arguments: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ending(call: Call, odd: dict[str, str], patience: float = PATIENCE) -> tuple[str, str]:
    """How a call with odd values ends: "result", "InputError", "Ctrl-C", or "other" with what is wrong."""
    arguments = call.arguments | {name: ODD[value]() for name, value in odd.items()}
    limit: tuple[float, BaseException] = (patience, KeyboardInterrupt()) if call.integrates else (SECONDS, Hangs())
    started = time.monotonic()
    try:
        with limited_time(*limit), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflow of extreme numbers: the result says inf or nan
            call.then(call.function(**arguments))
    except sd.InputError as error:
        message = str(error)
        if not message.isprintable() or len(message) > 1000 or not message.startswith("expected "):
            return "other", f"message {message[:300]!r}"
        return "InputError", ""
    except Hangs:
        return "other", f"longer than {SECONDS} s"
    except KeyboardInterrupt:
        return "Ctrl-C", ""
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        if call.integrates and time.monotonic() - started > patience and "compiled object" in str(error):
            return "Ctrl-C", ""  # it came while a kernel was compiled, where Python cannot raise it
        return "other", f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {errors.shown(error)}"
    if time.monotonic() - started > SECONDS:
        return "other", f"longer than {SECONDS} s in spite of Ctrl-C"
    return ("Ctrl-C" if call.integrates and time.monotonic() - started > patience else "result"), ""


# A stop while a kernel is compiled is printed and forgotten.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_odd_arguments_end_in_a_result_or_one_sentence(
    trials: Callable[[int, int], int],
    seed: int,
    endings: Counter[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Assert that calls with one or two odd arguments give a result, or InputError with a message of one line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAPDYN_CACHE", str(tmp_path / "cache"))
    public = calls(tmp_path)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    names, odd_names = list(public), list(ODD)
    for call in public.values():
        if call.integrates:  # compiles the kernels without a limit
            ending(call, {}, SECONDS)
    wrong: dict[str, str] = {}
    for _ in range(trials(300, 8000)):
        name = names[rng.integers(len(names))]
        replaced = rng.permutation(list(public[name].arguments))[: 1 + int(rng.random() < 0.25)]
        odd = {str(argument): odd_names[rng.integers(len(odd_names))] for argument in replaced}
        how, what = ending(public[name], odd)
        endings[how] += 1
        if how == "other":
            wrong.setdefault(f"{name}({', '.join(f'{key}={value}' for key, value in odd.items())})", what)
    assert not wrong, f"{len(wrong)} calls:\n" + "\n".join(f"{call}: {what}" for call, what in wrong.items())


def test_every_baseline_gives_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the calls without odd values give results, so that the attack tests what follows the checks."""
    monkeypatch.chdir(tmp_path)
    failing = {}
    for name, call in calls(tmp_path).items():
        how, what = ending(call, {}, SECONDS)  # a first call compiles, which may take longer than PATIENCE
        if how != ("InputError" if name in REFUSED else "result"):
            failing[name] = how + what
    assert not failing, failing
