"""Right-hand side of the full mean field where the output columns are many: tile by tile, for several threads.

The equations of `general.mean_field` are computed in five passes; a call makes one pass over a part of the classes,
tiles or rows. For these systems Y is far larger than the caches. A computation class by class would read every row of Y
once for each class that has the token; here the rows of Y are read in order, once. Only a tile, `TILE` columns of the
logits of all classes, is read repeatedly, and it stays in the cache. The order of every sum is the same for any
division into parts.

Entries are (class, row of Y) pairs: `f` lists them class by class, the arrays `by_row` row by row; `place` gives the
place of each entry of `f` in `by_row`.
"""

from __future__ import annotations

import math

import numpy as np

from snapdyn.dynamics.kernels.compilation import EXACT, REASSOCIATE, kernel
from snapdyn.dynamics.kernels.elementary import exp_nonpositive

TILE = 48  # output columns: a thousand classes make a tile of 0.4 MB
# Where tiles are faster (docs/how_to/text.md): rows of Y of a class that exceed a cache of half a megabyte, and columns
# and work enough for the passes and threads. Windows of a text, each a class of few words, are faster class by class.
FEWEST_TILED_COLUMNS = 32
LEAST_VALUES_OF_A_CLASS = 60_000
LEAST_TILED_WORK = 5_000_000  # entries times columns


def is_tiling_faster(num_entries: int, num_columns: int, num_classes: int, residual: bool) -> bool:
    """Whether the tiled kernels are faster than `general.mean_field`; they have no residual connection."""
    work = num_entries * num_columns
    least_work = max(LEAST_TILED_WORK, LEAST_VALUES_OF_A_CLASS * num_classes)
    return not residual and num_columns >= FEWEST_TILED_COLUMNS and work >= least_work


@kernel(nogil=True, fastmath=EXACT)
def attention_pass(first, last, state, indptr, slots, place, log_p, multiplicity, f, f_by_row):
    """f = c/|c| of classes first..last-1 from the logits z, the first values of the state."""
    for n in range(first, last):
        start, end = indptr[n], indptr[n + 1]
        largest = -math.inf
        for i in range(start, end):
            x = log_p[i] + state[slots[i]]
            f[i] = x
            largest = x if x > largest else largest
        for i in range(start, end):
            f[i] = exp_nonpositive(f[i] - largest)
        square = 0.0
        for i in range(start, end):
            square += multiplicity[i] * f[i] * f[i]
        scale = 1.0 / math.sqrt(square)
        for i in range(start, end):
            f[i] *= scale
            f_by_row[place[i]] = f[i]


@kernel(nogil=True, fastmath=REASSOCIATE, allocates=True)
def logits_pass(first, last, Y, row_start, class_by_row, row_multiplicity, f_by_row, tiles):
    """Y^T f of all classes in the tiles first..last-1; `tiles` (tiles, S, TILE), columns beyond the last are 0."""
    rows, columns = Y.shape
    y = np.zeros(TILE)
    for k in range(first, last):
        begin = k * TILE
        width = min(TILE, columns - begin)
        tile = tiles[k]
        for n in range(tile.shape[0]):
            for j in range(TILE):
                tile[n, j] = 0.0
        for j in range(TILE):
            y[j] = 0.0
        for l in range(rows):
            for j in range(width):
                y[j] = row_multiplicity[l] * Y[l, begin + j]
            p, end = row_start[l], row_start[l + 1]
            while p + 1 < end:  # two at a time: the compiler unrolls one, and takes twice as long
                logits_0, logits_1 = tile[class_by_row[p]], tile[class_by_row[p + 1]]
                f_0, f_1 = f_by_row[p], f_by_row[p + 1]
                for j in range(TILE):
                    logits_0[j] += f_0 * y[j]
                    logits_1[j] += f_1 * y[j]
                p += 2
            if p < end:
                logits_0, f_0 = tile[class_by_row[p]], f_by_row[p]
                for j in range(TILE):
                    logits_0[j] += f_0 * y[j]


@kernel(nogil=True, fastmath=REASSOCIATE, allocates=True)
def error_pass(first, last, num_columns, column, last_multiplicity, prior, tiles, losses):
    """Turn the logits of classes first..last-1 into p_n (e_n - alpha_n); losses[n] = -p_n ln alpha_n[next]."""
    r = np.empty(tiles.shape[0] * TILE)
    for n in range(first, last):
        for k in range(tiles.shape[0]):
            for j in range(TILE):
                r[k * TILE + j] = tiles[k, n, j]
        largest = r[0]
        for j in range(1, num_columns):
            largest = r[j] if r[j] > largest else largest
        for j in range(num_columns):
            r[j] = exp_nonpositive(r[j] - largest)
        own = r[column[n]]
        r[column[n]] = 0.0
        others = (last_multiplicity - 1.0) * r[num_columns - 1]
        for j in range(num_columns):
            others += r[j]
        scale = prior[n] / (others + own)
        for j in range(num_columns):
            r[j] *= -scale
        r[column[n]] = others * scale
        losses[n] = prior[n] * math.log1p(others / own)
        for k in range(tiles.shape[0]):
            for j in range(TILE):
                tiles[k, n, j] = r[k * TILE + j]


@kernel(nogil=True, fastmath=REASSOCIATE, allocates=True)
def decoder_pass(first, last, Y, row_start, class_by_row, f_by_row, last_multiplicity, eta_Y, tiles, g_by_row, rate):
    """Rows first..last-1 of Y' to `rate`, and p_n g_n = p_n Y (e_n - alpha_n) on their entries."""
    columns = Y.shape[1]
    y, change = np.zeros(TILE), np.zeros(TILE)
    for p in range(row_start[first], row_start[last]):
        g_by_row[p] = 0.0
    for k in range(tiles.shape[0]):
        begin = k * TILE
        width = min(TILE, columns - begin)
        tile = tiles[k]
        for j in range(TILE):
            y[j] = 0.0
        for l in range(first, last):
            for j in range(width):
                y[j] = Y[l, begin + j]
            if begin + width == columns:
                y[width - 1] *= last_multiplicity
            for j in range(TILE):
                change[j] = 0.0
            p, end = row_start[l], row_start[l + 1]
            while p + 3 < end:  # four at a time save three passes over y and `change`
                e_0, e_1 = tile[class_by_row[p]], tile[class_by_row[p + 1]]
                e_2, e_3 = tile[class_by_row[p + 2]], tile[class_by_row[p + 3]]
                f_0, f_1, f_2, f_3 = f_by_row[p], f_by_row[p + 1], f_by_row[p + 2], f_by_row[p + 3]
                g_0, g_1, g_2, g_3 = 0.0, 0.0, 0.0, 0.0
                for j in range(TILE):
                    g_0 += e_0[j] * y[j]
                    g_1 += e_1[j] * y[j]
                    g_2 += e_2[j] * y[j]
                    g_3 += e_3[j] * y[j]
                    change[j] += f_0 * e_0[j] + f_1 * e_1[j] + f_2 * e_2[j] + f_3 * e_3[j]
                g_by_row[p] += g_0
                g_by_row[p + 1] += g_1
                g_by_row[p + 2] += g_2
                g_by_row[p + 3] += g_3
                p += 4
            while p < end:
                e_0, f_0, g_0 = tile[class_by_row[p]], f_by_row[p], 0.0
                for j in range(TILE):
                    g_0 += e_0[j] * y[j]
                    change[j] += f_0 * e_0[j]
                g_by_row[p] += g_0
                p += 1
            for j in range(width):
                rate[l, begin + j] = eta_Y * change[j]


@kernel(nogil=True, fastmath=EXACT)
def attention_rate_pass(indptr, slots, place, multiplicity, f, g_by_row, eta_Z, rate):
    """z' to `rate` (slots,) from f and p_n g_n of all classes."""
    for i in range(rate.size):
        rate[i] = 0.0
    for n in range(indptr.size - 1):
        overlap = 0.0
        for i in range(indptr[n], indptr[n + 1]):
            overlap += multiplicity[i] * f[i] * g_by_row[place[i]]
        for i in range(indptr[n], indptr[n + 1]):
            rate[slots[i]] += eta_Z * f[i] * (g_by_row[place[i]] - f[i] * overlap)
