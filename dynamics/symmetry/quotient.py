"""The mean field of one value per colour: what the right-hand side needs of a colouring.

For a class c of each colour (|c| classes of probability p_c), k counts the colours of its entries, O those of its
outputs, y the colours of Y. With f_k, r_O = delta - alpha_O and g_k as in `kernels/mean_field/general`,

    a_O = sum_{k,y} A f_k Y_y,   g_k = sum_{O,y} B Y_y r_O,   Y_y' = eta_Y sum_{c,k,O} C f_k r_O,
    z_s' = eta_Z sum_{c,k} D f_k (g_k - f_k (f . g)).

A counts the entries k that meet one output of O in a value y, weighted by the tokens lumped in them; B counts the
outputs; C and D count the classes that drive one value y or one logit s, times p_c. Every member of a colour has the
same counts (the colouring is balanced), so the sums over all members, divided by their number, give them.
"""

from __future__ import annotations

from typing import NamedTuple

import scipy.sparse

from snapdyn.dynamics.classes import Floats, Ints


class Quotient(NamedTuple):
    """Lists of `kernels/mean_field/quotient`, class by class; the state is [z per colour, Y per colour].

    Attributes
    ----------
    ranges : (C, 6) int64 array
        First and last + 1 of the entry colours, the output colours and the terms of each class.
    classes : (C, 3) int64 array
        Its next token's output colour; entry colour that stands for the query token with the residual connection, or
        -1; entry colour of the query token among the contextual ones, or -1. Counted within the class.
    share : (C,) array
        |c| p_c.
    entry_slot : (entry colours,) int64 array
        State value of the logit.
    entries : (3, entry colours) array
        ln P; number of tokens; D.
    output_number : (output colours,) array
        Number of outputs.
    term_index : (3, terms) int64 array
        Entry colour and output colour within the class; state value of Y.
    terms : (3, terms) array
        A, B, C.
    start : (size,) array
        State at t = 0.
    number : (size,) array
        Number of values of the full layout that each state value stands for.
    num_slots : int
        Number of logits, the first of the state values.
    """

    ranges: Ints
    classes: Ints
    share: Floats
    entry_slot: Ints
    entries: Floats
    output_number: Floats
    term_index: Ints
    terms: Floats
    start: Floats
    number: Floats
    num_slots: int

    @property
    def size(self) -> int:
        """Number of state values."""
        return int(self.start.size)


class RowSums(NamedTuple):
    """The different row sums of z and Y as matrices over the state, and how often those of Y occur."""

    z: scipy.sparse.csr_array | Floats  # (different rows of z, size): number of tokens
    y: scipy.sparse.csr_array | Floats  # (different rows of Y, size): number of outputs
    y_number: Floats  # (different rows of Y,): number of tokens
