"""The full mean-field system: decoder and attention coupled, no separation of time scales."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from snapdyn.core.errors import flag, positive, whole
from snapdyn.core.memory import scratch
from snapdyn.dynamics.classes.kinds import Kinds
from snapdyn.dynamics.classes.symmetric import SymmetricClasses
from snapdyn.dynamics.classes.table import Floats, Ints, SequenceClasses
from snapdyn.dynamics.kernels.dormand_prince import integrator_of
from snapdyn.dynamics.kernels.law import TANGENT_ROWS, WORK_ROWS, mean_field, tangent
from snapdyn.dynamics.rules import DescentRule, GradientDescent, Optimizer, rules_of_layers
from snapdyn.dynamics.systems.base import CompiledSystem, ConservedSum, checked_classes
from snapdyn.dynamics.systems.layout import Layout, build_layout, start_key
from snapdyn.dynamics.systems.quotient import KindsQuotient, logit_of_z, quotient_of, value_of_decoder

LARGEST_FULL = 10**7  # state values that are integrated one by one where classes carry their quotient
LARGEST_STATE = 2**32 - 1  # the kernel's indices have 32 bits


class MeanField(CompiledSystem):
    """Mean field: the expectation of the SGD step (3)-(4) as a flow, T infinite, general priors p_n.

    Y' = eta_Y sum_n p_n u_n (e_n - alpha_n)^T,  z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o (g_n - f_n (f_n . g_n)),
    g_n = Y (e_n - alpha_n), u_n = f_n, from Y(0) = 0.

    Parameters
    ----------
    classes : SequenceClasses
    eta_Y : float
        Learning rate of the decoder per batch-size-1 step.
    eta_Z : float
        Learning rate of the attention logits per batch-size-1 step.
    z_initial : (Q, M) array, optional
        Initial logits, rows in increasing query id: a prior on attention. Default 0.
    residual : bool
        Residual connection: u_n = (f_n + e_psi(n))/|f_n + e_psi(n)|; the query token is a row of Y.
    optimizer : rule or pair of rules
        A rule of descent other than plain gradient descent (`GradientDescent` with momentum, `Adam`, `SignDescent`), or
        a pair (rule of Y, rule of z): the system is then the `RuleFlow` of this rule, and t counts its updates.
    batch_size : int or None
        B of the noise that v of Adam sees (`RuleFlow`); None: no noise. Plain gradient descent does not depend on it.
    memory : bool
        Whether moments of the rule are part of the state; without them the flow is that of a rule that forgets at once.

    Raises
    ------
    InputError
        Rates that are not positive, no rule of descent, or classes whose state is too large for 32-bit indices.

    Examples
    --------
    >>> import snapdyn as sd
    >>> system = sd.MeanField(sd.syn_small(), eta_Y=1.0, eta_Z=1.0)
    >>> system.size, system.rate_ratio
    (85, 1.0)
    >>> sd.integrate(system, [0.0, 10.0, 100.0]).loss.round(3)
    array([3.526, 0.715, 0.028])
    """

    compiled = integrator_of(mean_field, mean_field)
    reducible = True
    quotient: KindsQuotient | None = None  # of a reduced system
    # Set by `snapdyn.dynamics.systems`, since the module of this class imports the present one.
    of_rule: ClassVar[type[MeanField]]

    def __init__(
        self,
        classes: SequenceClasses,
        eta_Y: float,
        eta_Z: float,
        z_initial: ArrayLike | None = None,
        residual: bool = False,
        *,
        optimizer: Optimizer = GradientDescent.name,
        batch_size: int | None = None,
        memory: bool = True,
    ) -> None:
        rules = rules_of_layers(optimizer)
        if type(self) is MeanField and rules != (GradientDescent(), GradientDescent()):
            self.__class__ = MeanField.of_rule  # its state may hold moments
        self.classes: SequenceClasses = checked_classes(classes)
        self.eta_Y, self.eta_Z = positive("eta_Y", eta_Y), positive("eta_Z", eta_Z)
        if z_initial is not None:
            self.z_initial = classes.check_z(z_initial)
            self.z_initial.flags.writeable = False  # layouts are kept for this start
        self.residual = flag("residual", residual)
        self.parameters = {"eta_Y": self.eta_Y, "eta_Z": self.eta_Z, "residual": self.residual}
        # Symmetric classes that start alike need nothing of the size of all classes unless it is asked for.
        self.carries_quotient = (
            type(self) is MeanField
            and isinstance(classes, SymmetricClasses)
            and not self.residual
            and (z_initial is None or not self.z_initial.any())
        )
        if not self.carries_quotient:
            self._require_indices()
        self._take_rules(rules, batch_size, memory)

    def _take_rules(self, rules: tuple[DescentRule, DescentRule], batch_size: int | None, memory: bool) -> None:
        """Plain gradient descent needs nothing else; see `RuleFlow`."""

    def on_kinds(self, kinds: Kinds) -> MeanField:
        """This system with one value in place of all that stay equal; observables are those of all classes.

        Arrays with the size of all classes (`z_support`, `decoder`, `full_state`) are made when they are asked for.
        """
        small = copy.copy(self)
        of_the_form = "size", "multiplications", "initial_logits", "value_of_z", "value_of_decoder"
        for name in (*of_the_form, "_arguments", "reductions"):
            vars(small).pop(name, None)
        small._take_kinds(kinds)
        return small

    def _take_kinds(self, kinds: Kinds) -> None:
        V, residual = self.classes.vocab_size, self.residual
        self.quotient = self.classes.kept.get_or_make(
            ("quotient", residual), self.start_key, lambda: quotient_of(kinds, V, residual)
        )
        # Share of each state value in mean squares over the full state, which decide on a step.
        weights = self.quotient.lists.copies
        if self.needs_quotient:
            # Weighted by their copies, N^2 values of Y that hardly move would hide errors of the N that matter: with
            # 10^9 classes, an error of 10^4 tolerances in the own next token. No full run is there to agree with.
            weights = np.ones(weights.size)
        self.norm_weights = weights / weights.sum()

    @property
    def form(self) -> Layout | KindsQuotient:
        """How the state is laid out: for all classes, or for kinds of classes."""
        return self.layout if self.quotient is None else self.quotient

    @property
    def holds_kinds(self) -> bool:  # type: ignore[override]
        return self.quotient is not None and self.carries_quotient

    @property
    def needs_quotient(self) -> bool:
        """Whether the state of all classes is so large that, by default, its quotient by declared kinds is integrated.

        In this case no run needs to make steps of the full system.
        """
        return self.carries_quotient and self.size_of_all > LARGEST_FULL

    @cached_property
    def z_initial(self) -> Floats:  # type: ignore[override]
        """(Q, M) attention logits at t = 0; zeros are one read-only array, which all systems of these classes share."""
        return self.classes.kept.get_or_make("zeros", b"", self._zeros)

    def _zeros(self) -> Floats:
        zeros = self.classes.check_z(None)
        zeros.flags.writeable = False
        return zeros

    @property
    def has_z(self) -> bool:
        return True

    @cached_property
    def layout(self) -> Layout:
        """Layout of the state."""
        kind = ("layout", self.residual)
        return self.classes.kept.get_or_make(
            kind, self.start_key, lambda: build_layout(self.classes, self.z_initial, self.residual)
        )

    @cached_property
    def start_key(self) -> bytes:
        """Key that is different for different initial logits; empty for zeros."""
        return start_key(self.z_initial) if "z_initial" in vars(self) else b""

    @cached_property
    def size(self) -> int:
        """Number of state values."""
        return self.size_of_all if self.quotient is None else self.quotient.size

    @property
    def size_of_all(self) -> int:
        """Number of state values of all classes."""
        if self.carries_quotient and isinstance(self.classes, SymmetricClasses):
            return self.classes.mean_field_size
        return self.layout.size

    @cached_property
    def multiplications(self) -> float:
        # Each entry of P meets each output of its class twice: in the logits, and in the rate of its own logit.
        lists = self.form.lists
        return super().multiplications + 2.0 * float(np.diff(lists.indptr) @ np.diff(lists.output)[:, 0])

    @cached_property
    def initial_logits(self) -> Floats:
        """(num_slots,) logits of the state at t = 0."""
        if self.quotient is not None:
            return self.quotient.kinds.start
        if not self.start_key:
            return np.zeros(self.layout.num_slots)
        return self.layout.slots(self.classes, self.z_initial)

    def _require_indices(self) -> None:
        L = self.layout
        values = f"the values of {L.num_rows} rows of Y with {L.num_columns} columns"
        whole(values, self.size, 0, LARGEST_STATE, "use fewer tokens or next tokens")

    def initial_state(self) -> Floats:
        start = self.initial_logits  # asks for the memory first
        state = np.zeros(self.size)
        state[: start.size] = start
        return state

    def kernel_arguments(self) -> tuple[Any, ...]:
        if self.quotient is None:
            self._require_indices()
        form = self.form
        return form.lists, np.array([self.eta_Y, self.eta_Z]), scratch(WORK_ROWS, form.width)

    def jacobian_product(self) -> Callable[..., Any] | None:
        if type(self) is not MeanField or self.residual:  # the tangent is that of this rate alone
            return super().jacobian_product()
        *arguments, work = self.kernel_arguments()
        arguments += [scratch(TANGENT_ROWS, work.shape[1]), np.empty(0)]
        return lambda t, state, vector, out: tangent(state, vector, out, *arguments)

    def loss(self, state: Floats) -> float:
        return self.write_rate(state, np.empty_like(state))

    @property
    def num_logit_values(self) -> int:
        return self.form.num_slots

    @cached_property
    def value_of_z(self) -> Ints:
        """Index in the state of every logit in classes.z_coordinates, (nz,)."""
        if self.quotient is None:
            return self.layout.slot_of_z
        return logit_of_z(self.classes, self.quotient.kinds, self.z_initial)

    def z_support(self, state: Floats) -> Floats:
        return state.take(self.value_of_z, axis=-1)

    def full_state(self, state: Floats) -> Floats:
        if self.quotient is None:
            return state
        return state.take(np.concatenate([self.value_of_slot, self.value_of_decoder.ravel()]), axis=-1)

    @property
    def value_of_slot(self) -> Ints:
        """Index in the state of the logit of each slot of the layout of all classes."""
        slots = np.empty(self.layout.num_slots, np.int64)
        slots[self.layout.slot_of_z] = self.value_of_z
        return slots

    @cached_property
    def value_of_decoder(self) -> Ints:
        """Index in the state of each value of Y, (rows, columns) in the layout of all classes."""
        if self.quotient is None:
            return np.arange(self.layout.num_slots, self.size).reshape(self.layout.num_rows, self.layout.num_columns)
        return value_of_decoder(self.classes, self.layout, self.quotient, self.value_of_z)

    def decoder(self, state: Floats) -> Floats:
        if self.quotient is None:
            L = self.layout
            return state[..., L.num_slots :].reshape(*state.shape[:-1], L.num_rows, L.num_columns)
        return state.take(self.value_of_decoder, axis=-1)

    def decoder_ids(self) -> tuple[Ints, Ints]:
        return self.layout.row_of_token, self.layout.output_token

    def conserved_sums(self, state: Floats) -> dict[str, ConservedSum]:
        form, slots, start = self.form, self.form.num_slots, self.initial_logits
        z, Y = state[..., :slots], state[..., slots:]
        terms, tokens = form.num_slots + form.lists.share.size + form.lists.number.size, self.classes.num_tokens

        def sizes_of_Y() -> Floats:
            return form.sums_of_Y(np.abs(Y))

        def size_of_z() -> Floats:
            # |Y|, the Frobenius norm, is at most that of the absolute row sums. The terms of the rate of z are those of
            # Y times Y times the ratio of the rates.
            length = np.sqrt(sizes_of_Y() ** 2 @ form.tokens_of_rows)
            logits = form.sums_of_z(np.abs(z) + np.abs(start)).max(axis=-1)
            return np.asarray(logits + self.rate_ratio * (1.0 + length) ** 2)

        of_Y, of_z = (np.abs(sums).max(axis=-1) for sums in (form.sums_of_Y(Y), form.sums_of_z(z - start)))
        outputs = float(self.classes.vocab_size)
        return {
            "row sum of Y": ConservedSum(of_Y, terms, outputs, lambda: np.asarray(sizes_of_Y().max(axis=-1))),
            "row sum of Z": ConservedSum(of_z, terms, float(tokens), size_of_z),
        }

    def value_name(self, index: int) -> str:
        return self.form.value_name(index, self.classes)
