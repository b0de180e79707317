"""Sparse tables with indices that lead out of their arrays: refused before compiled code follows them."""

import numpy as np
from scipy import sparse

from snapdyn.analytic import expected_spurious
from snapdyn.core.errors import InputError
from snapdyn.dynamics import MeanField, SequenceClasses, integrate
from tests.fuzz.processes import endings_of, refusal

LIMIT = 60.0  # seconds; a trial that takes longer is ended and counted
NUMBERS = (-(2**62), -(10**6), -1, 0, 1, 2, 3, 7, 10**6, 10**8, 2**31, 2**62)
FORMATS = ("csr", "csc", "bsr", "coo", "lil", "dok", "dia")


def damaged_table(rng: np.random.Generator) -> sparse.sparray:
    """A table (S, M) of any format whose index arrays, data or shape have one to three wrong entries."""
    S, M = rng.integers(1, 5, 2)
    table = sparse.csr_array(rng.dirichlet(np.ones(M), S)).asformat(FORMATS[rng.integers(len(FORMATS))])
    names = [name for name in ("indptr", "indices", "row", "col", "offsets", "data") if hasattr(table, name)]
    for _ in range(rng.integers(1, 4) if names else 0):
        array = getattr(table, names[rng.integers(len(names))])
        if array.dtype.kind == "i" and array.size and rng.random() < 0.8:
            wrong = NUMBERS[rng.integers(len(NUMBERS))]
            array[rng.integers(array.size)] = np.clip(wrong, np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
        elif array.dtype.kind == "f":
            array.flat[rng.integers(array.size)] = rng.choice([-1.0, 0.0, np.nan, np.inf, 1e300])
    if rng.random() < 0.2 and hasattr(table, "rows") and table.rows.size:
        table.rows[0] = [10**8]
    return table


def made(table: sparse.sparray) -> str:
    """How the classes of a table, a run on them, and the expected number of spurious tokens end."""
    try:
        classes = SequenceClasses(table, np.zeros(table.shape[0], dtype=int), vocab_size=20)
        run = integrate(MeanField(classes, 1.0, 1.0), [1.0])
        expected_spurious(table, classes.next_token, sequences=2, seq_len=3)
    except InputError as error:
        return refusal(error)
    return "finished" if run.success and np.isfinite(run.attention).all() else "not finished"


def test_damaged_sparse_tables() -> None:
    """Assert that a sparse table with wrong indices or numbers is refused, or is a table of probabilities."""
    made(sparse.csr_array(np.eye(2)))  # compiles what the processes then have
    ended = endings_of(lambda rng: made(damaged_table(rng)), 300, 4000, LIMIT)
    assert set(ended) <= {"refused", "finished"}, ended
