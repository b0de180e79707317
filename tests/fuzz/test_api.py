"""Calls of public functions with one or two odd arguments: a result, or one sentence."""

import inspect
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from hypothesis import assume, event, given, strategies as st

import snapdyn as sd
from snapdyn import analytic, dynamics, figures, validation
from snapdyn.core import errors
from snapdyn.validation.pictures import Line, Map
from tests.fuzz.conftest import searched
from tests.fuzz.odd_values import ODD

# A call that takes longer counts as one that hangs; the first call of a kernel compiles it.
SECONDS = 120
# Integration at extreme rates may take days. It is stopped as by Ctrl-C after so many seconds, and again later: an
# interruption during hypothesis's callback of the garbage collector is lost.
PATIENCE = 1
AGAIN = 10
# Calls that would take long, and so name what does not exist; a claim without texts.
REFUSED = ("claim", "load_claims", "use_register", "train_transformer", "write", "compute", "draw")


class Hangs(BaseException):
    """A call has taken SECONDS."""


@dataclass(frozen=True)
class Call:
    """A callable with arguments that it takes, and whether it works for as long as these say.

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


def sizes_of_a_box(eta: Any, arms: Any) -> sd.Box:
    return sd.Box(eta=eta, arms=arms)


# Values of required arguments by their names.
USUAL: dict[str, Any] = {
    "s": 1.0, "t": [1.0, 10.0], "t_eval": [1.0, 2.0], "x": 1.0, "num_steps": 3, "steps": 5, "Gamma": 10.0,
    "eta_Y": 1.0, "eta_Z": 0.5, "num_classes": 5, "num_distinct": 2, "vocab_size": 1000, "rho0": 5.0, "overlap": 0.4,
    "wbar": 0.36, "initial_gain": 0.5, "growth_of_logit": 0.2, "distinct_probabilities": [0.2, 0.3],
    "common_probability": 0.5, "common_attention": 0.3, "E_prime": [[0.0, 0.1], [0.1, 0.0]], "first": 1.0, "last": 10.0,
    "seq_len": 100, "P": [[0.4, 0.6, 0.0], [0.5, 0.0, 0.5]], "query": [5, 5], "z": np.zeros((1, 3)), "n": 0, "l": 1,
    "name": "n", "label": "n", "unit": "1", "id": "n", "source": "own", "title": "N", "statement": "n", "caption": "n.",
    "xlabel": "x", "ylabel": "y", "quantity": "q", "what": "error", "rung": "SGD", "measured": 1.0, "value": 1.0,
    "required": "Q = 1", "values": nothing, "compute": nothing, "draw": nothing, "measure": nothing,
    "function": nothing, "momentum": 0.5, "claim": "lemma13", "seed": 0, "number": 0,
    "next_token": [0, 1], "sequences": 3,
    "width": 3.0, "height": 2.0, "eta": (0.1, 1.0, "log"), "arms": (2, 10), "results": (), "rows": (),
    "dataset": xarray.Dataset(),
}  # fmt: skip


def calls(folder: Path) -> dict[str, Call]:
    """Public callables by name, each with arguments that give a result."""
    (folder / "text.txt").write_text("one two three two one three\n" * 40)
    run, system, family = trajectory(), sd.MeanField(classes(), 1.0, 0.5), sd.Family("two", num_classes=(2, 2))
    line, instance = Line("line", np.arange(2.0), np.arange(2.0)), family.draw(0, 0)
    usual = USUAL | {
        "classes": classes(), "system": system, "systems": [system], "profile": analytic.distinct_profile([0.2, 0.3]),
        "path": run.save(folder / "run.nc"), "paths": folder / "text.txt", "lines": (line,),
        "runs": [sd.SGD(classes(), 1.0, 0.5, 5, 2)], "entry": figures.FigureEntry("f", "F", "f.", nothing, nothing),
        "picture": sd.Picture("x", "y", (line,)), "axes": {"eta_Y": [1.0, 2.0], "eta_Z": [1.0, 2.0]},
    }  # fmt: skip

    def call(function: Callable[..., Any], then: Callable[[Any], Any] = nothing, **given: Any) -> Call:
        """A call with the usual values of required arguments; `given` are others."""
        taken = inspect.signature(function).parameters.values()
        needed = (each.name for each in taken if each.default is each.empty and each.kind is not each.VAR_KEYWORD)
        return Call(function, {name: usual[name] for name in needed if name not in given} | given, then=then)

    evidence = [getattr(sd.Evidence(), role) for role in ("holds", "corrected", "outside", "control")]
    of_class = (
        "support", "check_class", "distinct_tokens", "common_tokens", "check_z", "attention_entries", "decoder_inputs",
        "gram", "E", "E_prime", "eigenvalues",
    )  # fmt: skip
    plain = [
        *filter(inspect.isfunction, (getattr(analytic, name) for name in analytic.__all__)),
        *(getattr(classes(), name) for name in of_class),
        run.entropy, run.token_attention, run.growth_factor, family.draw,
        sd.syn_medium, sd.single_common_token, sd.data_set,
        sd.load, sd.log_times, dynamics.momentum_clock, sd.MeanField, sd.FrozenDecoder, sd.ModifiedDecoder,
        sd.FiniteLengthMeanField, sd.register, figures.FigureEntry, sd.Claim, sd.Observable, sd.Event, sizes_of_a_box,
        sd.Evidence, validation.equation_text, figures.compute, figures.new_figure, figures.claim_svg, sd.claim,
        validation.use_register,
    ]  # fmt: skip
    training = {"batch_size": 2, "seq_len": 7, "record": [0, 5]}
    quick = [
        *map(call, plain),
        *(call(role, at_most=2.0) for role in evidence),
        call(run.relative_gain, l0=0),
        call(run.save, path=folder / "saved.nc"),
        call(sd.from_text, window=2, min_count=2, min_token_count=1, max_classes=10),
        call(sd.sgd, **training, threads=1),
        call(sd.DataSet, source=classes()),
        call(sd.TextClasses, counts=[1, 1], words=["a"] * 6, window=2, num_words=9, num_documents=1, words_read=9),
        call(sd.Trajectory, classes=classes(), parameters={"eta_Y": 1.0}),
        call(sd.descend, step_size=0.1),
        call(sd.SGD, lambda made: made.run(), **training),
        call(sd.sgd_runs, threads=1),
        call(validation.load_claims, path=folder / "none.py"),
        call(sd.train_transformer, paths=folder / "none", learning_rate=0.1),
        *(call(kind, at_most=2.0) for kind in (sd.Measured, sd.Requirement)),
        call(sd.SequenceClasses, next_token=[0, 1], prior=[1.0, 2.0], vocab_size=10),
        call(sd.Property, domain=family, evaluations=(1, 2)),
        call(sd.Family, lambda made: made.draw(0, 0), num_classes=(2, 2)),
        call(sd.Instance.of, t_end=10.0),
        call(
            sd.Instance,
            lambda made: made.correlation,
            **{entry.name: getattr(instance, entry.name) for entry in fields(instance) if entry.init},
        ),
        call(Line, x=[1.0], y=[2.0]),
        call(sd.Picture, verticals=(("t0", 1.0),)),
        call(Map, x=[1.0, 2.0], y=[1.0], violation=[[0.0, 1.0]], threshold=0.5, boundaries=(line,)),
        call(validation.fit_order, x=[0.1, 0.2, 0.4, 0.8], y=[0.1, 0.2, 0.4, 0.8]),
        call(figures.write, ids=["none"], out=folder / "figures", width=5.0, style="icml"),
        call(figures.draw, id="none", width=5.0, style="icml"),
    ]
    integrating = [
        *map(call, (sd.integrate, integrated, dynamics.whole_run, validation.equation_table)),
        call(sd.SingleCommonToken, lambda made: sd.integrate(made, [1.0, 2.0])),
        call(sd.integrate_many, threads=1, rtol=1e-6),
        call(sd.ladder, seeds=2, max_steps=100),
        call(sd.random_classes),
        call(sd.validate, only=["lemma13"], jobs=1),
        call(sd.check, eta_Y=1.0, eta_Z=0.5, t_end=10.0, only="lemma13"),
        call(sd.boundary, t_end=10.0),
    ]
    named = {each.function.__qualname__: each for each in quick}
    return named | {each.function.__qualname__: replace(each, integrates=True) for each in integrating}


@contextmanager
def limited_time(seconds: float, error: BaseException) -> Iterator[None]:
    """Raise the error after some seconds, and again if that did not end the block."""

    def stop(*arguments: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
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


class Calls(dict[str, Call]):
    """Calls by name, shown by their number: hypothesis shows all arguments of a failing test."""

    def __repr__(self) -> str:
        return f"{len(self)} calls"


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    """The calls, of which each gives a result without odd values; compiles the kernels without a limit."""
    folder = tmp_path_factory.mktemp("api")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SNAPDYN_CACHE", str(folder / "cache"))
        made = calls(folder)
        for name, call in made.items():
            assert ending(call, {}, SECONDS) == ("InputError" if name in REFUSED else "result", ""), name
        yield Calls(made)


# A stop while a kernel is compiled is printed and forgotten.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@searched(100, 8000)
@given(st.integers(0, 2**64))
def test_odd_arguments_end_in_a_result_or_one_sentence(public: Calls, seed: int) -> None:
    """Assert, with one or two odd arguments, a result or InputError of one line."""
    rng = np.random.default_rng(seed)
    name, odd_names = list(public)[rng.integers(len(public))], list(ODD)
    replaced = rng.permutation(list(public[name].arguments))[: 1 + int(rng.random() < 0.25)]
    odd = {str(argument): odd_names[rng.integers(len(ODD))] for argument in replaced}
    assume("progress" not in odd or ODD[odd["progress"]]() is not int)  # a function of the caller that fails
    how, what = ending(public[name], odd)
    event(how)
    assert how != "other", f"{name} with {odd}: {what}"
