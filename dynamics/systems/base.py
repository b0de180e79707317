"""What a system of ordinary differential equations offers to the integrator and to a trajectory."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from snapdyn.core.errors import InputError, instance, require_arguments, shown
from snapdyn.core.memory import scratch
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.kernels.dormand_prince import Integrator


class ConservedSum(NamedTuple):
    """A conserved sum sum_j m_j y_j of state values: how far it has moved, and what its rounding depends on.

    Attributes
    ----------
    violation : (...) array
        For states (..., size): the largest absolute change of all sums of this name since t = 0.
    terms : int
        Number of additions behind one value of the rate of the sum.
    weight : float
        sum_j m_j.
    scale : callable
        Returns the largest sum_j m_j |y_j| of all sums of this name, (...), plus a bound of the terms of their rate
        where these can be larger.
    """

    violation: Floats
    terms: int
    weight: float
    scale: Callable[[], Floats]


class System(ABC):
    """A system of ODEs, d(state)/dt = rate(state); t counts batch-size-1 SGD steps.

    A subclass defines `initial_state` and `write_rate`, and sets `parameters` if it has any. Everything else is
    optional: a system without attention logits, loss or decoder does not define them, and its trajectory then
    holds the state itself.

    Parameters
    ----------
    *arguments : object
        Those of the subclass.
    **options : object
        Those of the subclass.

    Attributes
    ----------
    parameters : mapping
        What defines the system besides the classes; stored with every trajectory.
    value_names : sequence of str
        Names of the state values, for failure reports and datasets; empty for a system that does not name them.
    classes : SequenceClasses or None
        None for a system without sequence classes.
    z_initial : (Q, M) array or None
        Attention logits at t = 0; None for a system without attention logits.
    is_autonomous : bool
        Whether the rate depends on the state only. False for a class that defines `write_rate_at`, unless the class
        sets it. A system of `from_sympy` depends on time if its rate contains the symbol of time, a system of
        `from_function` if its code reads t.
    compiled : Integrator or None
        Integrator with the right-hand side, made by `kernels.dormand_prince.integrator_of`. A subclass must declare its
        own integrator, since it may change the right-hand side. Systems of `from_sympy` and `from_function` have one
        that calls their right-hand side.
    reducible : bool
        Whether values that stay equal can be one value (`systems.reduction`). Like `compiled`, it is declared by the
        class itself and not inherited.
    norm_weights : (size,) array or None
        Weight of each state value in the mean squares of the compiled integrator, sum 1; None: equal weights.
    eta_Y : float
        Rate of the decoder per batch-size-1 step, the fastest rate if eta_Z/eta_Y is at most 1; see `time_scale`.
    eta_Z : float
        Rate of attention per batch-size-1 step; 0 without attention, or where it is frozen.

    Examples
    --------
    >>> import numpy as np
    >>> import snapdyn as sd
    >>> class Logistic(sd.System):
    ...     parameters = {"capacity": 2.0}
    ...     value_names = ("population",)
    ...
    ...     def initial_state(self):
    ...         return np.array([0.5])
    ...
    ...     def write_rate(self, state, out):
    ...         out[0] = state[0] * (1.0 - state[0] / self.parameters["capacity"])
    >>> trajectory = sd.integrate(Logistic(), [0.0, 1.0, 20.0])
    >>> trajectory.state.round(4)
    array([[0.5   ],
           [0.9507],
           [2.    ]])
    """

    # Set by `snapdyn.dynamics.systems`, since those modules import this one.
    from_sympy: ClassVar[Callable[..., System]]
    from_function: ClassVar[Callable[..., System]]

    parameters: Mapping[str, Any] = MappingProxyType({})
    value_names: Sequence[str] = ()
    classes: SequenceClasses | None = None
    z_initial: Floats | None = None
    eta_Y: float = 1.0
    eta_Z: float = 0.0
    norm_weights: Floats | None = None
    # Whether a run keeps one value for all that stay equal (`systems.reduction`), those of one class of each kind.
    holds_kinds: bool = False
    compiled: ClassVar[Integrator | None] = None
    reducible: ClassVar[bool] = False

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """Refuse the base class itself, whose rate is not defined, and unknown keywords with a suggestion."""
        if cls is System:
            raise InputError(
                "expected a system with a rate, received the base class System, which cannot be instantiated; make one "
                "with System.from_sympy or System.from_function, or define a subclass"
            )
        code = getattr(cls.__init__, "__code__", None)  # object.__init__ has none, and would take any keyword
        if code is None or not code.co_flags & inspect.CO_VARKEYWORDS:
            named = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount] if code else ()
            require_arguments(cls.__name__, options, named)
        return super().__new__(cls)

    # -- what every system has -----------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """Name of the system: that of its class."""
        return type(self).__name__

    @abstractmethod
    def initial_state(self) -> Floats:
        """State at t = 0, (size,)."""

    @abstractmethod
    def write_rate(self, state: Floats, out: Floats) -> float | None:
        """Write d(state)/dt to `out`; return the loss if the kernel computes it on the way, else any value."""

    @cached_property
    def size(self) -> int:
        """Number of state values."""
        return int(np.size(self.initial_state()))

    @property
    def multiplications(self) -> float:
        """Multiplications that take as long as an evaluation and its part of a step: 50 per state value (measured)."""
        return 50.0 * self.size

    @cached_property
    def reductions(self) -> dict[bool, Any]:
        """Reduced systems by whether they were asked for; see `systems.reduction.reduced`."""
        return {}

    def check_values(self, *vectors: Floats) -> None:
        """Raise unless each vector can be passed to compiled code, which does not check the bounds of its arrays.

        Raises
        ------
        InputError
            A vector is not a contiguous float64 array of shape (size,).
        """
        for vector in vectors:
            received = getattr(vector, "dtype", None), getattr(vector, "shape", None)
            if received != (np.float64, (self.size,)) or not vector.flags.c_contiguous:
                raise InputError(
                    f"expected contiguous float64 arrays of shape ({self.size},) for state and rate of {self.name}, "
                    f"received {shown(vector)}; start from system.initial_state() and np.empty(system.size)"
                )

    def full_state(self, state: Floats) -> Floats:
        """State values in the order that the documentation of the system gives, (..., n), of states (..., size)."""
        return state

    def derivative(self, t: float, state: Floats) -> Floats:
        """d(state)/dt at time t, a new (size,) array."""
        # Implicit solvers pass columns of a matrix; the kernels are compiled for contiguous arrays only.
        state = np.ascontiguousarray(state, dtype=np.float64)
        self.check_values(state)
        out = scratch(state.size)
        self.write_rate_at(t, state, out)
        return out

    def write_rate_at(self, t: float, state: Floats, out: Floats) -> float | None:
        """Write d(state)/dt at time t to `out`; autonomous systems define `write_rate` only."""
        return self.write_rate(state, out)

    @property
    def is_autonomous(self) -> bool:
        """Whether the rate depends on the state only; classes may set it as a class attribute."""
        return type(self).write_rate_at is System.write_rate_at

    def jump_times(self, t_end: float) -> Floats:
        """Increasing times in [0, t_end] at which the rate is known to jump; the steps of a run begin anew there."""
        return np.zeros(0)

    def value_name(self, index: int) -> str:
        """Name of one state value, for messages."""
        return self.value_names[index] if index < len(self.value_names) else f"state value {index}"

    # -- time scales ---------------------------------------------------------------------------------------
    @property
    def rate_ratio(self) -> float:
        """eta_Z/eta_Y, the quantity that makes the system stiff (0: attention frozen, or no attention)."""
        return self.eta_Z / self.eta_Y

    @property
    def time_scale(self) -> float:
        """t_s of the integration variable log(1 + t/t_s): 1 over the fastest rate, in batch-size-1 steps."""
        return 1.0 / (self.eta_Y * max(1.0, self.rate_ratio))

    # -- optional: attention, loss, decoder ----------------------------------------------------------------
    @property
    def has_z(self) -> bool:
        """Whether the system has attention logits (`z_initial`, `z_support`)."""
        return self.z_initial is not None

    @property
    def has_loss(self) -> bool:
        """Whether the system defines `loss`."""
        return type(self).loss is not System.loss

    @property
    def num_logit_values(self) -> int:
        """Number of state values, from the first on, that `z_support` needs."""
        return self.size

    def z_support(self, state: Floats) -> Floats:
        """Attention logits on classes.z_coordinates, (..., nz), of states (..., size)."""
        raise self._lacking("attention logits")

    def loss(self, state: Floats) -> float:
        """-sum_n p_n ln alpha_n[next], nats."""
        raise self._lacking("a loss")

    def decoder(self, state: Floats) -> Floats:
        """Decoder logits Y, (rows, columns), in the compressed form of `decoder_ids`."""
        raise self._lacking("a decoder Y")

    def decoder_ids(self) -> tuple[Ints, Ints]:
        """Return the row of Y of each token id (-1: none), and the output of each column (-1: all remaining ones)."""
        raise self._lacking("a decoder Y")

    def invariants(self, state: Floats) -> dict[str, Floats]:
        """Largest violation of each conserved quantity, (...), of states (..., size); 0 when kept exactly."""
        with np.errstate(all="ignore"):  # of a run that diverges
            return {name: each.violation for name, each in self.conserved_sums(state).items()}

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        """The `invariants` that are linear in the state, by name, for states (..., size).

        A run that violates one of them by more than rounding and the tolerance explain has failed
        (`integration.recorder`). Other invariants are reported and not judged.
        """
        return {}

    def extra(self, state: Floats) -> dict[str, Floats]:
        """Further quantities of this system by name, (..., k), for states (..., size): h (k = S), B (k = 1), ..."""
        return {}

    def kernel_arguments(self) -> tuple[Any, ...]:
        """Arguments of the compiled right-hand side after state and out, with new scratch arrays.

        Every run has scratch arrays of its own, so that runs of one system in several threads do not share any.
        """
        raise self._lacking("a right-hand side that is compiled into the integrator")

    # -- optional: what a theory of one's own has (`systems.own`) --------------------------------------------
    @property
    def integrator(self) -> Integrator | None:
        """Integrator with this right-hand side, or None."""
        compiled: Integrator | None = vars(type(self)).get("compiled")
        return compiled

    @property
    def stepper(self) -> Any:
        """Compiled explicit steps of this right-hand side, as `kernels.explicit_steps`, or None."""
        return None

    @property
    def with_steps(self) -> System:
        """The system whose state the steps of `descend` change: this one, unless it has steps of its own."""
        return self

    @property
    def has_jacobian(self) -> bool:
        """Whether the system defines `write_jacobian_product`."""
        return type(self).write_jacobian_product is not System.write_jacobian_product

    def write_jacobian_product(self, t: float, state: Floats, vector: Floats, out: Floats) -> None:
        """Write the derivative of the rate at (t, state) along `vector`, (size,), to `out`."""
        raise self._lacking("a Jacobian")

    def jacobian_product(self) -> Callable[..., Any] | None:
        """A function as `write_jacobian_product` with scratch arrays of its own, or None without one."""
        return self.write_jacobian_product if self.has_jacobian else None

    def observables(self, states: Floats) -> dict[str, Floats]:
        """Named functions of the state, (N, ...), of states (N, size)."""
        return {}

    @property
    def state_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each named part of the state, in the order in which the parts follow each other."""
        return MappingProxyType({})

    def _lacking(self, what: str) -> InputError:
        return InputError(f"expected a system with {what}, received {self.name}, which has none")

    def __repr__(self) -> str:
        listed = [f"{key}={value!r}" for key, value in self.parameters.items()]
        return f"{self.name}({', '.join(listed if self.classes is None else [repr(self.classes), *listed])})"


class CompiledSystem(System):
    """A system whose right-hand side is a kernel, that of `compiled` with the `kernel_arguments`."""

    @cached_property
    def _arguments(self) -> tuple[Any, ...]:
        return self.kernel_arguments()

    def write_rate(self, state: Floats, out: Floats) -> float:
        self.check_values(state, out)
        assert self.compiled is not None
        return float(self.compiled.rate(state, out, *self._arguments))


def checked_classes(classes: Any) -> SequenceClasses:
    """Return `classes` after checking its type."""
    checked: SequenceClasses = instance(
        "classes", classes, SequenceClasses, "build them with SequenceClasses(P, query)"
    )
    return checked


def require_one_class_per_next_token(classes: SequenceClasses, name: str) -> None:
    """Raise when several classes share a next token: the modified flow (8) is not defined for them."""
    if classes.next_tokens.size != classes.num_classes:
        raise InputError(
            f"expected classes with different next tokens for {name} (Eq. 8 decouples one row per next token), "
            f"received {classes.num_classes} classes for {classes.next_tokens.size} next tokens; use MeanField"
        )
