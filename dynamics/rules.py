"""Rules of descent: plain gradient descent with or without momentum, Adam, sign descent.

Each is declared here once, as numbers that `kernels.rules` reads: its step, for SGD and the mean map, and its flow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, NamedTuple

from snapdyn.core.errors import InputError, fraction, real, unknown_name
from snapdyn.core.registry import Registry


class Rule(NamedTuple):
    """The numbers of a rule for one layer, as the kernels read them."""

    adaptive: bool
    beta1: float  # of an adaptive rule; else the momentum mu
    beta2: float
    epsilon: float


class DescentRule(ABC):
    """How the gradient of J moves the parameters of a layer; `optimizer=` takes one, or a pair (of Y, of z)."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def numbers(self) -> Rule:
        """What the kernels read."""

    @property
    def as_json(self) -> str | dict[str, Any]:
        """The rule as a JSON value: its name, with the parameters that are not those by default."""
        values = asdict(self)  # type: ignore[call-overload]
        changed = {name: value for name, value in values.items() if value != getattr(type(self), name)}
        return {"name": self.name, **changed} if changed else self.name


@dataclass(frozen=True)
class GradientDescent(DescentRule):
    """Gradient descent, x <- x + eta u with the velocity u <- momentum u + g (torch.optim.SGD).

    Parameters
    ----------
    momentum : float
        Heavy ball, at least 0 and below 1.

    Examples
    --------
    >>> import snapdyn as sd
    >>> sd.GradientDescent(momentum=0.9)
    GradientDescent(momentum=0.9)
    """

    momentum: float = 0.0
    name: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        object.__setattr__(self, "momentum", fraction("momentum", self.momentum))

    @property
    def numbers(self) -> Rule:
        return Rule(False, self.momentum, 0.0, 0.0)


@dataclass(frozen=True)
class Adam(DescentRule):
    """Adam with bias correction (torch.optim.Adam); beta1 = 0 is RMSProp with bias correction.

    At update k = 1, 2, ...: m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2,
    x <- x + eta (m/(1 - beta1^k))/(sqrt(v/(1 - beta2^k)) + epsilon); 0/0 is 0.

    Parameters
    ----------
    beta1 : float
        Decay of the mean m of the gradient, per update, at least 0 and below 1.
    beta2 : float
        Decay of the mean v of its square, per update, at least 0 and below 1.
    epsilon : float
        At least 0.

    Examples
    --------
    >>> import snapdyn as sd
    >>> run = sd.sgd(sd.syn_small(), 0.01, 0.01, steps=100, optimizer=sd.Adam(beta2=0.99), record=[100])
    >>> run.success
    True
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    name: ClassVar[str] = "adam"

    def __post_init__(self) -> None:
        for each in ("beta1", "beta2"):
            object.__setattr__(self, each, fraction(each, getattr(self, each)))
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon, at_least=0.0))

    @property
    def numbers(self) -> Rule:
        return Rule(True, self.beta1, self.beta2, self.epsilon)


@dataclass(frozen=True)
class SignDescent(DescentRule):
    """Sign descent, x <- x + eta sign(g), sign(0) = 0: Adam with beta1 = beta2 = epsilon = 0.

    Examples
    --------
    >>> import snapdyn as sd
    >>> float(sd.sgd(sd.syn_small(), 0.01, 0.01, steps=1, batch_size=None, optimizer=sd.SignDescent()).z.max())
    0.0
    """

    name: ClassVar[str] = "sign"

    @property
    def numbers(self) -> Rule:
        return Rule(True, 0.0, 0.0, 0.0)


RULES: Registry[type[DescentRule]] = Registry(
    "rule of descent", lambda rule: rule.name, [GradientDescent, Adam, SignDescent]
)
"""The rules that `optimizer=` knows by name."""

Optimizer = str | DescentRule | Mapping[str, Any] | tuple[str | DescentRule, str | DescentRule]


def rules_of_layers(optimizer: Any, momentum: float = 0.0) -> tuple[DescentRule, DescentRule]:
    """Return the rules of Y and of z that `optimizer` stands for.

    Parameters
    ----------
    optimizer : str, DescentRule, pair of them, or mapping
        A name in `RULES`, a rule, or a pair (rule of Y, rule of z); or what `optimizer_as_json` returns, as in a file:
        {"name": "adam", "beta2": 0.99} or {"Y": ..., "z": ...}.
    momentum : float
        Heavy ball of the rule called "sgd".

    Raises
    ------
    InputError
        No rule, an unknown name or parameter, or a momentum with a rule that is not "sgd" itself.
    """
    momentum = fraction("momentum", momentum)
    if momentum and optimizer != GradientDescent.name:
        raise InputError(
            f"expected optimizer='sgd' with momentum={momentum:g}, received optimizer={optimizer!r}; leave momentum "
            "out, or give it as sd.GradientDescent(momentum=...)"
        )
    if isinstance(optimizer, Mapping) and set(optimizer) == {"Y", "z"}:
        optimizer = optimizer["Y"], optimizer["z"]
    if isinstance(optimizer, (tuple, list)) and len(optimizer) == 2:
        of_Y, of_z = (_rule(each, 0.0) for each in optimizer)
        return of_Y, of_z
    rule = _rule(optimizer, momentum)
    return rule, rule


def optimizer_as_json(rules: tuple[DescentRule, DescentRule]) -> Any:
    """The rules of Y and of z as a JSON value; the momentum of plain gradient descent is a setting of its own."""
    of_Y, of_z = rules
    if of_Y != of_z:
        return {"Y": of_Y.as_json, "z": of_z.as_json}
    return of_Y.name if isinstance(of_Y, GradientDescent) else of_Y.as_json


def _rule(given: Any, momentum: float) -> DescentRule:
    if isinstance(given, DescentRule):
        return given
    if isinstance(given, Mapping):
        values = dict(given)
        rule = type(_rule(values.pop("name", None), 0.0))
        known = [each.name for each in fields(rule)]  # type: ignore[arg-type]
        for name in values:
            if name not in known:
                raise unknown_name(f"a parameter of {rule.name!r}", name, known)
        return rule(**values)
    if not isinstance(given, str):
        raise InputError(
            f"expected optimizer as {', '.join(map(repr, RULES))}, a rule such as sd.Adam(), a mapping with its name, "
            f"or a pair (rule of Y, rule of z), received {type(given).__name__}; give one of these"
        )
    if given not in RULES:
        raise unknown_name("optimizer", given, RULES)
    return GradientDescent(momentum) if given == GradientDescent.name else RULES[given]()
