"""The law of the mean field, and its tangent: Eqs. (3)-(5) in expectation over classes, T infinite.

With f_n = c_n/|c_n|, c_n proportional to P(.|n) exp(z), and u_n = f_n (with the residual connection
(f_n + e_q)/|f_n + e_q|, q the query token),

    Y'   = eta_Y sum_n p_n u_n (e_n - alpha_n)^T, alpha_n = softmax(Y^T u_n)
    z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o (d_n - f_n (f_n . d_n)), d_n = dJ_n/df_n

t counts batch-size-1 steps. Let g_n = Y (e_n - alpha_n). Without residual connection d = g. With it
d = (I - u u^T) g/|f + e_q|, and |f + e_q|^2 = 2 + 2 f_q, where f_q is the entry of f for the query token as a
contextual token (the last token does not attend to itself).

`Structure` lists classes, their entries (tokens with P > 0) and outputs, each with the number of those that it stands
for. For a table of classes the numbers are those of equal tokens and of outputs that are no next token; for kinds of
exchangeable classes (`systems.quotient`) they are large. The law is the same.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from snapdyn.dynamics.kernels.compilation import REASSOCIATE, Bools, Floats, Ints, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive, softmax_error

LANES = 4  # numbers in a vector register; scratch for the entries of a class is rounded up to it
WORK_ROWS = 6
TANGENT_ROWS = 8


class Structure(NamedTuple):
    """Classes, their entries and their outputs; the state is [z of each slot, values of Y].

    The values of Y of an entry stand one after the other, one for each output of its class: from `first` on in the
    state itself where `value` is None (a table of classes), else from `first` on in `value`, which holds their places
    in the state. Each value of the state stands for `copies` values of all classes: for equal ones of different classes
    (equal tokens and the outputs without a class count once). Where all numbers of copies are 1, `copies` is empty.
    """

    num_slots: int
    indptr: Ints  # (S+1,) entries of class n are indptr[n]:indptr[n+1]
    slot: Ints  # (entries,) state value of the logit; unsigned, since a signed index costs a test for negative values
    log_p: Floats  # (entries,) ln P
    tokens: Floats  # (entries,) tokens that the entry stands for
    first: Ints  # (entries,) where its values of Y begin; unsigned
    is_first: Bools  # (entries,) whether the entry is the first one to touch its values, so that the rate is set
    value: Ints | None  # (pairs,) places in the state; unsigned
    output: Ints  # (S, 2) outputs of class n are output[n, 0]:output[n, 1] in `number` and `columns`
    own: Ints  # (S,) output of the next token, counted from output[n, 0] on
    number: Floats  # (outputs,) outputs that it stands for
    columns: Floats  # (outputs,) as `number`, where outputs that no class predicts count once
    share: Floats  # (S,) number of classes that the class stands for, times the prior of one
    # (S, 3) with the residual connection: as `first`, of the query token, else -1; which entry of the class is the
    # query token itself, else -1; whether the class is the first one to touch the values of the query token.
    query: Ints
    copies: Floats  # (size,) or (0,)


class Entries(NamedTuple):
    """Entries of one class or sequence."""

    slot: Ints
    first: Ints
    is_first: Bools


class Outputs(NamedTuple):
    """Outputs of one class or sequence, as in `Structure`."""

    value: Ints | None
    own: int
    number: Floats
    columns: Floats


class Query(NamedTuple):
    """Query token with the residual connection: place of its values (-1: none), its entry (-1), and first touch."""

    first: int
    entry: int
    is_first: bool


@kernel(forceinline=True)
def place(value: Any, at: Any) -> Any:
    """Place in the state of a value of Y; the compiler removes the branch."""
    if value is None:
        return at
    return value[at]


@kernel(fastmath=REASSOCIATE, forceinline=True)
def attention(n, state, lists, work):
    """Write c, and c times the number of tokens, of class n to work[0] and work[1]; return 1/|c|.

    f = c/|c|, but 1/|c| is multiplied as late as possible, so that nothing waits for the square root.
    """
    start, m = lists.indptr[n], lists.indptr[n + 1] - lists.indptr[n]
    c, counted, slot, log_p, tokens = work[0], work[1], lists.slot, lists.log_p, lists.tokens
    largest = -math.inf
    for k in range(m):
        x = log_p[start + k] + state[slot[start + k]]
        c[k] = x
        largest = x if x > largest else largest
    padded = (m + LANES - 1) // LANES * LANES
    for k in range(m, padded):  # whole vectors: a remainder one by one takes as long as the rest
        c[k] = largest
    for k in range(padded):
        c[k] = exp_nonpositive(c[k] - largest)
    # A loop that sums and also stores would be vectorised only where its arrays are seen to lie apart: the last bits of
    # the sum would depend on where they are in memory.
    for k in range(m):
        counted[k] = tokens[start + k] * c[k]
    square = 0.0
    for k in range(m):
        square += counted[k] * c[k]
    return 1.0 / math.sqrt(square)


@kernel(fastmath=REASSOCIATE, forceinline=True)
def add_row(factor, row, value, at, C, is_first, out):
    """Add `factor` times a row (C,) to values of Y of one entry; the first row of an entry replaces what is there."""
    if is_first:
        for j in range(C):
            out[place(value, at + j)] = factor * row[j]
    else:
        for j in range(C):
            out[place(value, at + j)] += factor * row[j]


@kernel(fastmath=REASSOCIATE, forceinline=True)
def add_gradient(state, out, square, entries, outputs, query, scale, speeds, work):
    """Add the gradient of J = ln alpha[own] of one class or sequence to `out`, times `speeds` (of Y, of z); return -J.

    f is `scale` times work[0], (m,); work[1] is work[0] times the number of tokens. The other rows are scratch.
    `square` receives what `out` does, with the squares of the gradient's values; None: nothing. It does not know the
    residual connection, where the query token gets two terms.
    """
    c, counted, g, error, driven = work[0], work[1], work[2], work[3], work[4]
    slot, first, is_first = entries.slot, entries.first, entries.is_first
    value, number, columns = outputs.value, outputs.number, outputs.columns
    m, C = first.size, number.size
    for j in range(C):
        error[j] = 0.0
    for k in range(m):
        at, share = first[k], counted[k]
        for j in range(C):
            error[j] += share * state[place(value, at + j)]
    for j in range(C):
        error[j] *= scale
    shrink, f_query = 1.0, 0.0
    if query.first >= 0:
        f_query = scale * c[query.entry] if query.entry >= 0 else 0.0
        shrink = 1.0 / math.sqrt(2.0 + 2.0 * f_query)
        for j in range(C):
            error[j] = (error[j] + state[place(value, query.first + j)]) * shrink
    loss = softmax_error(error[:C], outputs.own, number)
    speed = speeds[0] * shrink
    for j in range(C):
        driven[j] = speed * columns[j] * error[j]
        if square is not None:
            work[5, j] = driven[j] * error[j]
        error[j] *= number[j]

    overlap = 0.0
    for k in range(m):
        at, change, dot = first[k], scale * c[k], 0.0
        for j in range(C):
            dot += state[place(value, at + j)] * error[j]
        g[k] = dot
        overlap += counted[k] * dot
        add_row(change, driven, value, at, C, is_first[k], out)
        if square is not None:
            add_row(change * change, work[5], value, at, C, is_first[k], square)
    overlap *= scale
    if query.first >= 0:
        # g becomes d = (I - u u^T) g shrink, u = (f + e_q) shrink, and `overlap` f . d.
        dot = 0.0
        for j in range(C):
            at = place(value, query.first + j)
            dot += state[at] * error[j]
            out[at] = (0.0 if query.is_first else out[at]) + driven[j]
        projection = (overlap + dot) * shrink * shrink
        for k in range(m):
            g[k] = (g[k] - projection * scale * c[k]) * shrink
        if query.entry >= 0:
            g[query.entry] -= projection * shrink
        overlap = (overlap - projection * (1.0 + f_query)) * shrink

    speed = speeds[1] * scale
    for k in range(m):
        out[slot[k]] += speed * c[k] * (g[k] - scale * c[k] * overlap)
        if square is not None:
            drive = scale * c[k] * (g[k] - scale * c[k] * overlap)
            square[slot[k]] += speeds[1] * drive * drive
    return loss


@kernel(fastmath=REASSOCIATE, forceinline=True)
def mean_field(state, out, lists, rates, work):
    """Write d(state)/dt to `out`; return the loss -sum_n p_n ln alpha_n[next].

    `lists` is a Structure, `rates` is (eta_Y, eta_Z). `work` (WORK_ROWS, W) is scratch, W at least the number of
    outputs of a class, and the number of entries of a class rounded up to `LANES`.
    """
    return mean_gradient(state, out, None, lists, rates, work)


@kernel(fastmath=REASSOCIATE, forceinline=True)
def mean_gradient(state, out, square, lists, rates, work):
    """As `mean_field`; `square`, (size,) or None, receives the mean square of the gradient of a class, for rates of 1.

    A class is drawn with the prior, and all its sequences have one gradient (T infinite). The variance over classes of
    the gradient of a batch of B is (square - out^2)/B.
    """
    for i in range(lists.num_slots if lists.value is None else out.size):
        out[i] = 0.0
    if square is not None:
        for i in range(lists.num_slots if lists.value is None else square.size):
            square[i] = 0.0
    loss = 0.0
    for n in range(lists.share.size):
        scale = attention(n, state, lists, work)
        part, share = slice(lists.indptr[n], lists.indptr[n + 1]), lists.share[n]
        seen = slice(lists.output[n, 0], lists.output[n, 1])
        entries = Entries(lists.slot[part], lists.first[part], lists.is_first[part])
        outputs = Outputs(lists.value, lists.own[n], lists.number[seen], lists.columns[seen])
        query = Query(lists.query[n, 0], lists.query[n, 1], lists.query[n, 2] == 1)
        speeds = (rates[0] * share, rates[1] * share)
        loss += share * add_gradient(state, out, square, entries, outputs, query, scale, speeds, work)
    for i in range(lists.copies.size):
        out[i] /= lists.copies[i]
        if square is not None:
            square[i] /= lists.copies[i]
    return loss


@kernel(fastmath=REASSOCIATE, forceinline=True)
def tangent(state, v, out, lists, rates, work, log_p_change):
    """Write J v to `out`, J the derivative of `mean_field` at `state`; return the derivative of the loss.

    Arguments as in `mean_field`; `work` is (TANGENT_ROWS, W); no residual connection. `log_p_change`, (entries,) or
    (0,), changes ln P as well: the attention of an entry depends on ln P + z, so it is added to the change of z.

    The equations are differentiated class by class along v = (z., Y.), where a dot after a symbol marks its change, x.
    is the change of ln P + z, and <.> is a sum over entries or outputs with their numbers:
    f. = f (x. - <f^2 x.>), r. = Y.^T f + Y^T f., alpha. = alpha (r. - <alpha r.>), g. = Y. e - Y alpha. with the error
    e = e_n - alpha. The product rule gives the changes of f e^T and of f o (g - f (f . g)). The loss changes by -e . r.
    """
    value, is_given = lists.value, log_p_change.size > 0
    for i in range(lists.num_slots if value is None else out.size):
        out[i] = 0.0
    dloss = 0.0
    for n in range(lists.share.size):
        start, m = lists.indptr[n], lists.indptr[n + 1] - lists.indptr[n]
        seen = slice(lists.output[n, 0], lists.output[n, 1])
        number, columns, own, share = lists.number[seen], lists.columns[seen], lists.own[n], lists.share[n]
        slots, firsts, is_first = lists.slot[start:], lists.first[start:], lists.is_first[start:]
        f, counted, df, g, dg = work[0], work[1], work[2], work[3], work[4]
        C = number.size
        error, derror, spare = work[5, :C], work[6, :C], work[7, :C]
        scale = attention(n, state, lists, work)
        mean = 0.0
        for k in range(m):
            f[k] *= scale
            counted[k] *= scale
            df[k] = v[slots[k]] + (log_p_change[start + k] if is_given else 0.0)
            mean += counted[k] * f[k] * df[k]
        for j in range(C):
            error[j] = 0.0
            derror[j] = 0.0
        for k in range(m):
            df[k] = f[k] * (df[k] - mean)
            at, share_k, dshare_k = firsts[k], counted[k], lists.tokens[start + k] * df[k]
            for j in range(C):
                y = place(value, at + j)
                error[j] += share_k * state[y]
                derror[j] += share_k * v[y] + dshare_k * state[y]
        # softmax_error turns logits into e_n - alpha; alpha itself is needed for its derivative.
        softmax_error(error, own, number)
        total = 0.0
        for j in range(C):
            spare[j] = (1.0 if j == own else 0.0) - error[j]
            total += number[j] * spare[j] * derror[j]
            dloss -= share * number[j] * error[j] * derror[j]
        for j in range(C):
            derror[j] = -spare[j] * (derror[j] - total)
        overlap, doverlap = 0.0, 0.0
        for k in range(m):
            at, dot, ddot = firsts[k], 0.0, 0.0
            for j in range(C):
                y = place(value, at + j)
                dot += number[j] * state[y] * error[j]
                ddot += number[j] * (v[y] * error[j] + state[y] * derror[j])
            g[k], dg[k] = dot, ddot
            overlap += counted[k] * dot
            doverlap += lists.tokens[start + k] * (df[k] * dot + f[k] * ddot)
            a, b = rates[0] * share * df[k], rates[0] * share * f[k]
            for j in range(C):
                y = place(value, at + j)
                change = columns[j] * (a * error[j] + b * derror[j])
                out[y] = change if is_first[k] else out[y] + change
        for k in range(m):
            inner = g[k] - f[k] * overlap
            change = df[k] * inner + f[k] * (dg[k] - df[k] * overlap - f[k] * doverlap)
            out[slots[k]] += rates[1] * share * change
    for i in range(lists.copies.size):
        out[i] /= lists.copies[i]
    return dloss
