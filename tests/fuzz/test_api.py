"""Calls of public functions with one or two odd arguments: a result, or one sentence."""

import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache, partial
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
REFUSED = ("load_claims", "train_transformer", "figures.write", "figures.compute", "figures.draw")


class Hangs(BaseException):
    """A call has taken SECONDS."""


@dataclass(frozen=True)
class Call:
    """A callable with arguments that it takes, and whether it integrates, or verifies, for as long as these say."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    integrates: bool = False


@cache
def classes() -> sd.SequenceClasses:
    return sd.single_common_token(2, 1, 0.3, vocab_size=10)


@cache
def trajectory() -> sd.Trajectory:
    return sd.integrate(sd.MeanField(classes(), 1.0, 1.0), [0.0, 1.0, 10.0], save_decoder=True)


def nothing(*arguments: object) -> None:
    """Measure, draw or report nothing."""


def calls(folder: Path) -> dict[str, Call]:
    """Public callables by name, each with arguments that give a result."""
    text = folder / "text.txt"
    text.write_text("one two three two one three\n" * 40)
    saved = trajectory().save(folder / "run.nc")
    rates = {"eta_Y": 1.0, "eta_Z": 0.5}
    growth = {"t": 1.0, **rates, "vocab_size": 10, "num_classes": 2, "rho0": 1.5}
    visits = {"s": 1.0, "eta_Y": 1.0, "vocab_size": 10}
    steps = {"t": 1.0, "eta_Y": 1.0, "vocab_size": 10, "num_classes": 2}
    of_classes = {"classes": classes(), **rates}
    training = {**of_classes, "steps": 5, "batch_size": 2, "seq_len": 7, "momentum": 0.5, "optimizer": "sgd",
                "init": "zeros", "seed": 0, "record": [0, 5],
                "residual": False, "save_decoder": False}  # fmt: skip
    system = sd.MeanField(**of_classes)
    solver = {"t_eval": [1.0, 2.0], "method": "auto", "rtol": 1e-6, "atol": 1e-8, "log_time": None, "events": None,
              "save_decoder": False, "progress": None, "z_only": False}  # fmt: skip
    measured = {"what": "error", "rung": "closed form", "measured": 1.0, "at_most": 2.0}
    line = Line("line", np.arange(2.0), np.arange(2.0))
    family = sd.Family("two", num_classes=(2, 2))
    instance = family.draw(0, 0)
    overlap = {"num_classes": 5, "vocab_size": 1000, "overlap": 0.4}
    drift = {"x": 1.0, "num_classes": 2, "rho0": 20.0, "pi": 0.36, "pi_slope": 0.05}
    of_profile = {"Gamma": 10.0, "num_classes": 2, "rho0": 5.0, "profile": analytic.distinct_profile([0.2, 0.3]),
                  "vocab_size": 10}  # fmt: skip
    random = {"num_classes": 3, "num_common": 1, "num_distinct": 2, "num_queries": 1, "vocab_size": 20,
              "correlation": "weak", "uniform_prior": True, "seed": 0}  # fmt: skip
    of_text = {"paths": text, "window": 2, "min_count": 2, "min_token_count": 1, "max_vocab": None, "max_classes": 10,
               "tokens": "words", "headings": "drop", "progress": None}  # fmt: skip
    table = {"P": [[0.4, 0.6, 0.0], [0.5, 0.0, 0.5]], "query": [5, 5], "next_token": [0, 1], "prior": [1.0, 2.0],
             "vocab_size": 10}  # fmt: skip
    z = {"z": np.zeros((1, 3))}
    closed_forms = {
        "h": visits,
        "error_norm": visits,
        "gamma": steps,
        "gamma_integral": steps,
        "discrete_h": {"num_steps": 3, "eta_Y": 1.0, "vocab_size": 10},
        "common_token_logit": {**growth, "form": "consistent"},
        "xi": {**growth, "form": "consistent"},
        "growth_exponent": {**growth, "form": "consistent"},
        "growth_exponent_pieces": growth,
        "u_minus": {"vocab_size": 10},
        "u_plus": {"vocab_size": 10},
        "u_peak": {"vocab_size": 10},
        "omega_1": {"vocab_size": 10},
        "transition_time": {"num_classes": 2, "vocab_size": 10, "eta_Y": 1.0, "kind": "peak"},
        "transition_time_with_overlap": {**overlap, "eta_Y": 1.0},
        "first_ladder_gaps": overlap,
        "ladder_gaps": {**overlap, "t": [1.0, 10.0], "eta_Y": 1.0},
        "largest_ladder_gap": {**overlap, "t": [1.0, 10.0], "eta_Y": 1.0},
        "overlap_decoder": {**overlap, "t": [1.0, 10.0], "eta_Y": 1.0},
        "relative_gain": {"initial_gain": 0.5, "growth_of_logit": 0.2},
        "distinct_profile": {"distinct_probabilities": [0.2, 0.3]},
        "speed_coefficients": {"E_prime": [[0.0, 0.1], [0.1, 0.0]], "vocab_size": 50, "form": "exact"},
        "growth_exponent_of_profile": of_profile,
        "bounds_of_growth": of_profile,
        "growth_and_common_logit": {"Gamma": 10.0, "num_classes": 2, "rho0": 5.0, "pi": 0.36, "vocab_size": 10},
        "growth_exponent_with_drift": drift,
        "error_of_consistent_form": drift,
        "single_common_token_orbit": {
            "t": [1.0, 10.0], "distinct_probabilities": [0.2, 0.3], "common_probability": 0.5, "num_classes": 3,
            "vocab_size": 50, "eta_Y": 1.0, "eta_Z": 0.5, "beta": "exact",
        },
    }  # fmt: skip
    evidence = {f"Evidence.{name}": Call(partial(_on_evidence, name), measured) for name in
                ("holds", "corrected", "outside", "control")}  # fmt: skip
    of_trajectory = {
        "entropy": {"distinct_only": False},
        "token_attention": {"n": 0, "l": 1},
        "relative_gain": {"n": 0, "l": 1, "l0": 0},
        "growth_factor": {"n": 0, "l": 1},
        "save": {"path": folder / "saved.nc"},
    }
    of_class = {
        "support": {"n": 0},
        "check_class": {"n": 0},
        "distinct_tokens": {"n": 0},
        "common_tokens": {"n": 0},
        "check_z": z,
        "attention_entries": z,
        "decoder_inputs": {**z, "residual": False},
        "gram": {**z, "residual": False},
        "E": z,
        "E_prime": z,
        "eigenvalues": z,
    }
    return {
        **{name: Call(getattr(analytic, name), arguments) for name, arguments in closed_forms.items()},
        **evidence,
        **{f"Trajectory.{name}": Call(getattr(trajectory(), name), given) for name, given in of_trajectory.items()},
        **{f"SequenceClasses.{name}": Call(getattr(classes(), name), given) for name, given in of_class.items()},
        "SequenceClasses": Call(sd.SequenceClasses, table),
        "syn_medium": Call(sd.syn_medium, {"num_queries": 2}),
        "single_common_token": Call(
            sd.single_common_token,
            {"num_classes": 2, "num_distinct": 2, "common_probability": 0.3, "vocab_size": 10},
        ),
        "random_classes": Call(sd.random_classes, random),
        "from_text": Call(sd.from_text, of_text),
        "log_times": Call(sd.log_times, {"first": 1.0, "last": 10.0, "count": 3}),
        "momentum_clock": Call(dynamics.momentum_clock, {"steps": [1.0, 2.0], "momentum": 0.5}),
        "MeanField": Call(sd.MeanField, {**of_classes, "z_initial": None, "residual": False}),
        "FrozenDecoder": Call(
            sd.FrozenDecoder,
            {"classes": classes(), "eta_Y": 1.0, "modified": False, "z_initial": None, "residual": False},
        ),
        "ModifiedDecoder": Call(sd.ModifiedDecoder, {**of_classes, "beta": "exact", "z_initial": None}),
        "FiniteLengthMeanField": Call(
            sd.FiniteLengthMeanField, {**of_classes, "seq_len": 100, "z_initial": None, "lump": True}
        ),
        "SingleCommonToken": Call(
            lambda **arguments: sd.integrate(sd.SingleCommonToken(**arguments), [1.0, 2.0]),
            {"num_classes": 2, "vocab_size": 10, **rates, "rho0": 2.0, "form": "consistent"},
            integrates=True,
        ),
        "integrate": Call(sd.integrate, {"system": system, **solver}, integrates=True),
        "integrate with rates": Call(
            lambda eta_Y, eta_Z: sd.integrate(sd.MeanField(classes(), eta_Y, eta_Z), [1.0]), rates, integrates=True
        ),
        "whole_run": Call(dynamics.whole_run, {"system": system, "t_eval": [1.0, 2.0]}, integrates=True),
        "integrate_many": Call(
            sd.integrate_many,
            {"systems": [system], "t_eval": [1.0], "threads": 1, "progress": None, "rtol": 1e-6},
            integrates=True,
        ),
        "sgd": Call(sd.sgd, {**training, "threads": 1}),
        "SGD": Call(lambda **arguments: sd.SGD(**arguments).run(), training),
        "sgd_runs": Call(sd.sgd_runs, {"runs": [sd.SGD(**training)], "threads": 1, "progress": None}),
        "fluctuations": Call(
            sd.fluctuations,
            {
                **of_classes,
                "t_eval": [0.0, 1.0],
                "batch_size": 1,
                "seq_len": None,
                "rtol": 1e-4,
                "z_initial": None,
                "progress": None,
            },
            integrates=True,
        ),
        "Fluctuations.band": Call(
            lambda level: sd.fluctuations(classes(), 0.1, 0.1, [0.0]).band(level), {"level": 0.9}, integrates=True
        ),
        "load": Call(sd.load, {"path": saved}),
        "load_claims": Call(validation.load_claims, {"path": folder / "none.py"}),
        "train_transformer": Call(sd.train_transformer, {"paths": folder / "none", "learning_rate": 0.1}),
        "ladder": Call(
            sd.ladder,
            {
                **of_classes,
                "t_eval": [1.0, 2.0],
                "tolerance": 0.05,
                "seeds": 2,
                "seq_len": None,
                "batch_size": 1,
                "momentum": 0.0,
                "form": "consistent",
                "max_steps": 100,
                "branch": "attention",
            },
            integrates=True,
        ),
        "check": Call(
            sd.check,
            {
                **of_classes,
                "t_end": 10.0,
                "only": "lemma13",
                "start": None,
                "seq_len": None,
                "momentum": 0.0,
                "rungs": (),
                "progress": None,
            },
            integrates=True,
        ),
        "boundary": Call(
            sd.boundary,
            {
                "claim": "lemma13",
                "classes": classes(),
                "axes": {"eta_Y": [1.0, 2.0], "eta_Z": [1.0, 2.0]},
                "t_end": 10.0,
                "rung": None,
                "seq_len": None,
                "momentum": 0.0,
            },
            integrates=True,
        ),
        "validate": Call(
            sd.validate,
            {"only": ["lemma13"], "level": "quick", "progress": None, "jobs": 1, "seed": 0},
        ),
        "register": Call(sd.register, {"entry": figures.FigureEntry("f", "F", "f.", nothing, nothing)}),
        "FigureEntry": Call(
            figures.FigureEntry,
            {
                "id": "f",
                "title": "F",
                "caption": "f.",
                "compute": nothing,
                "draw": nothing,
                "properties": (),
                "from_runs": False,
            },
        ),
        "claim": Call(
            lambda **arguments: sd.claim(**arguments)(nothing),
            {
                "id": "c",
                "source": "own",
                "title": "C",
                "statement": "c",
                "latex": "",
                "expected": "holds",
                "conditions": (),
                "conclusion": "",
                "findings": (),
                "properties": (),
                "proved": (),
                "certified": (),
                "picture": None,
                "map": None,
                "grade": None,
            },
        ),
        "Observable": Call(
            sd.Observable,
            {
                "name": "o",
                "label": "o",
                "unit": "1",
                "values": nothing,
                "dims": (),
                "cells": ("ode",),
                "indices": "",
                "curve": None,
                "on_support": None,
                "text": False,
                "needs_transition": False,
            },
        ),
        "Event": Call(sd.Event, {"function": nothing, "direction": 0, "terminal": False, "vectorized": False}),
        "Box": Call(sd.Box, {"eta": (0.1, 1.0, "log"), "arms": (2, 10)}),
        "Evidence": Call(
            sd.Evidence,
            {
                "checks": [],
                "conclusion": "",
                "picture": None,
                "map": None,
                "numbers": {},
                "tried": 0,
                "level": "quick",
                "seed": 0,
                "undecided": 0,
                "worst": "",
                "counterexample": None,
            },
        ),
        "Measured": Call(sd.Measured, {"value": 1.0, "at_most": 2.0, "error": 0.0, "where": ""}),
        "Requirement": Call(
            sd.Requirement,
            {"name": "r", "required": "Q = 1", "measure": nothing, "at_most": 1.0, "defining": False},
        ),
        "Property": Call(
            sd.Property,
            {
                "name": "p",
                "rung": "SGD",
                "measure": nothing,
                "domain": family,
                "conditions": (),
                "controls": {},
                "evaluations": (1, 2),
                "corrected": False,
                "directed": True,
                "cases": {},
                "beyond": {},
            },
        ),
        "Family": Call(lambda **arguments: sd.Family(**arguments).draw(0, 0), vars(family)),
        "Family.draw": Call(family.draw, {"seed": 0, "number": 0}),
        "Instance.of": Call(
            sd.Instance.of,
            {**of_classes, "t_end": 10.0, "start": None, "seq_len": None, "momentum": 0.0},
        ),
        "Instance": Call(
            lambda **arguments: sd.Instance(**arguments).correlation,
            {entry.name: getattr(instance, entry.name) for entry in fields(instance) if entry.init},
        ),
        "Line": Call(Line, {"label": "line", "x": [1.0], "y": [2.0], "kind": "theory"}),
        "Picture": Call(
            sd.Picture,
            {
                "xlabel": "t",
                "ylabel": "z",
                "lines": (line,),
                "xscale": "log",
                "yscale": "linear",
                "verticals": (("t0", 1.0),),
            },
        ),
        "Map": Call(
            Map,
            {
                "title": "m",
                "xlabel": "x",
                "ylabel": "y",
                "quantity": "q",
                "x": [1.0, 2.0],
                "y": [1.0],
                "violation": [[0.0, 1.0]],
                "threshold": 0.5,
                "boundaries": (line,),
                "xscale": "log",
                "yscale": "log",
                "scale": "log",
            },
        ),
        "fit_order": Call(
            validation.fit_order,
            {"x": [0.1, 0.2, 0.4, 0.8], "y": [0.1, 0.2, 0.4, 0.8], "y_error": None, "next_order": None},
        ),
        "equation_table": Call(validation.equation_table, {"results": ()}, integrates=True),
        "equation_text": Call(validation.equation_text, {"rows": ()}),
        "figures.write": Call(
            figures.write,
            {
                "ids": ["none"],
                "out": folder / "figures",
                "level": "quick",
                "progress": None,
                "runs": None,
                "parameters": None,
                "width": 5.0,
                "style": "icml",
                "formats": ["png"],
            },
        ),
        "figures.compute": Call(figures.compute, {"id": "none", "level": "quick", "runs": None, "eta_Z": 1.0}),
        "figures.draw": Call(figures.draw, {"id": "none", "dataset": xarray.Dataset(), "width": 5.0, "style": "icml"}),
        "errors.choice": Call(lambda value: errors.choice("n", value, ("a", "b")), {"value": "a"}),
        "errors.positive": Call(partial(errors.positive, "n"), {"value": 1.0}),
        "errors.fraction": Call(partial(errors.fraction, "n"), {"value": 0.5}),
        "errors.number": Call(partial(errors.number, "n"), {"value": 0.5}),
        "errors.flag": Call(partial(errors.flag, "n"), {"value": True}),
        "errors.whole": Call(partial(errors.whole, "n", at_least=0), {"value": 1}),
    }


def _on_evidence(role: str, **arguments: Any) -> sd.Evidence:
    evidence = sd.Evidence()
    getattr(evidence, role)(**arguments)
    return evidence


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
            call.function(**arguments)
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
    for _ in range(trials(400, 8000)):
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
