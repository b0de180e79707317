"""Which kernel computes the right-hand side of the full mean field: Eqs. (3)-(5) in expectation, T infinite.

| caller | three output columns | any other number of columns |
|---|---|---|
| steps from Python, with the loss | `general`, loops of length 3 | `tiled` where `is_tiling_faster`, else `general` |
| compiled integrator, without the loss | `three_columns` (residual connection or large logits: `general`) | `general` |
| compiled integrator, the loss at a save | `general`, loops of length 3 | `general` |

The tiles need threads, which the compiled integrator cannot start, so it never uses them. `jacobian` has one kernel.
Where the number of columns is known in Python, Python takes the kernel, so that the other one is not compiled.
"""

from __future__ import annotations

from snapdyn.dynamics.kernels.compilation import EXACT, kernel
from snapdyn.dynamics.kernels.mean_field.general import mean_field_of_any_columns, mean_field_of_three_columns

# Where tiles are faster (docs/how_to/text.md): rows of Y of a class that exceed a cache of half a megabyte, and columns
# and work enough for the passes and threads. Windows of a text, each a class of few words, are faster class by class.
FEWEST_TILED_COLUMNS = 32
LEAST_VALUES_OF_A_CLASS = 60_000
LEAST_TILED_WORK = 5_000_000  # entries times columns


@kernel(fastmath=EXACT)
def mean_field(state, out, entries, weights, classes, prior, constants, work):
    """Write d(state)/dt to `out` (t counts batch-size-1 steps); return the loss -sum_n p_n ln alpha_n[next].

    Y'   = eta_Y sum_n p_n u_n (e_n - alpha_n)^T, alpha_n = softmax(Y^T u_n)
    z_m' = eta_Z sum_{n: psi(n)=m} p_n f_n o (d_n - f_n (f_n . d_n)), d_n = dJ_n/df_n

    With g_n = Y (e_n - alpha_n): u = f and d = g; with the residual connection (query >= 0)
    u = (f + e_q)/|f + e_q| and d = (I - u u^T) g/|f + e_q|, |f + e_q|^2 = 2 + 2 f_q (q masked from itself,
    f_q the share of the query token among the contextual ones).

    The arrays of a `Layout` are stacked, since a call from Python costs 0.1 microseconds per argument:
    entries (3, nnz) uint32: where the row of Y starts in the state, slot of z, first touch of the row (unsigned,
    because signed indices cost a test for negative ones each); weights (2, nnz): ln P, multiplicity;
    classes (S, 6): first entry, end of entries, output column, start of the query token's row, query_entry, first
    touch of it; constants: slots, columns, multiplicity of the last column, eta_Y, eta_Z, whether slot i is entry i.
    `work` (4, W) is scratch: c, c times multiplicity, g, logits; W at least the columns, and the entries of a class
    rounded up to `LANES`.
    """
    if constants[1] == 3.0:
        return mean_field_of_three_columns(state, out, entries, weights, classes, prior, constants, work)
    return mean_field_of_any_columns(state, out, entries, weights, classes, prior, constants, work)


def is_tiling_faster(num_entries: int, num_columns: int, num_classes: int, residual: bool) -> bool:
    """Whether the tiled kernels are faster than `mean_field`; they have no residual connection."""
    work = num_entries * num_columns
    least_work = max(LEAST_TILED_WORK, LEAST_VALUES_OF_A_CLASS * num_classes)
    return not residual and num_columns >= FEWEST_TILED_COLUMNS and work >= least_work
