"""Data sets: stored sequences as classes, their spurious tokens, and what runs on them measure."""

import pickle
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snapdyn.core import memory
from snapdyn.core.errors import InputError
from snapdyn.dynamics import (
    DataSet,
    MeanField,
    SequenceClasses,
    data_set,
    integrate,
    load,
    random_classes,
    sgd,
    single_common_token,
)
from tests.dynamics.helpers import dense_decoder, sentence


def source() -> SequenceClasses:
    """Four classes of two queries, two of which share a next token and a query."""
    P = [[0.4, 0.1, 0.5, 0, 0], [0.2, 0.1, 0.3, 0.4, 0], [0, 0.3, 0, 0.3, 0.4], [0.5, 0.5, 0, 0, 0]]
    return SequenceClasses(P, [5, 5, 6, 6], [0, 0, 2, 3], [0.4, 0.3, 0.2, 0.1], vocab_size=9)


def listed(data: DataSet) -> Counter[tuple[Any, ...]]:
    """Number of stored sequences by query, next token and counts of the tokens."""
    counts = np.rint(data.P.toarray() * data.seq_len).astype(int)
    np.testing.assert_allclose(data.P.toarray(), counts / data.seq_len, rtol=1e-15)
    keys = zip(data.query.tolist(), data.next_token.tolist(), map(tuple, counts.tolist()), strict=True)
    return Counter(dict(zip(keys, data.counts.tolist(), strict=True)))


def test_sequences_are_draws_of_their_classes() -> None:
    """Assert numbers of sequences, and that frequencies of tokens and of pairs are those of multinomial draws.

    4.5 standard errors: over some 30 comparisons a chance of 2e-4.
    """
    T, N = 7, 4000
    P = source().P.toarray()
    for n in (0, 2):
        data = data_set(source(), [N if n == k else 0 for k in range(4)], T, seed=n)
        assert data.counts.sum() == N
        assert set(data.next_token) == {source().next_token[n]}
        weight = data.counts / N
        counts = data.P.toarray() * T
        np.testing.assert_array_equal(counts.sum(axis=1).round(9), T)
        error = np.sqrt(P[n] * (1 - P[n]) * T / N)
        assert (np.abs(weight @ counts - T * P[n]) <= 4.5 * error + 1e-12).all()
        absent = weight @ (counts == 0)
        expected = (1 - P[n]) ** T
        assert (np.abs(absent - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / N) + 1e-12).all()


def test_equal_sequences_are_one_class() -> None:
    """Assert that rows differ within a query and next token, that priors are counts, and that the mean field is that
    of all sequences one by one."""
    data = data_set(source(), 30, 2, seed=1)
    assert len(listed(data)) == data.num_classes < 120
    np.testing.assert_allclose(data.prior, data.counts / 120, rtol=1e-14)
    each = np.repeat(np.arange(data.num_classes), data.counts)
    one_by_one = SequenceClasses(data.P[each], data.query[each], data.next_token[each], vocab_size=9)
    runs = [integrate(MeanField(classes, 1.0, 0.5), [30.0], rtol=1e-10) for classes in (data, one_by_one)]
    np.testing.assert_allclose(runs[0].z, runs[1].z, rtol=1e-7, atol=1e-9)
    assert data.vocab_size == 9


def test_more_sequences_begin_with_the_same_ones() -> None:
    """Assert that the sequences of one seed are a part of more of them, and that another seed gives others."""
    few, many = listed(data_set(source(), [3, 5, 0, 1], 6, seed=2)), listed(data_set(source(), 9, 6, seed=2))
    assert few <= many
    assert few == listed(data_set(source(), [3, 5, 0, 1], 6, seed=2))
    assert few != listed(data_set(source(), [3, 5, 0, 1], 6, seed=3))
    long = data_set(source(), [3, 5, 0, 0], 10_000, seed=2)
    assert not listed(long) & listed(long.fresh)


@pytest.mark.parametrize("sequences", [1, 4, [2, 0, 3, 1]])
def test_spurious_tokens_by_plain_sets(sequences: Any) -> None:
    """Assert the pairs by sets: with one next token in the data, with several in the classes."""
    found = set()
    for seed in range(20):
        data, classes = data_set(source(), sequences, 2, seed=seed), source()
        seen, possible = defaultdict(set), defaultdict(set)
        for of, into in ((data, seen), (classes, possible)):
            for n in range(of.num_classes):
                for token in of.support(n).tolist():
                    into[token].add(int(of.next_token[n]))
        expected = {(*seen[token], token) for token in seen if len(seen[token]) == 1 < len(possible[token])}
        assert set(map(tuple, data.spurious.tolist())) == expected
        assert data.spurious.shape == (len(expected), 2)
        found |= expected
    assert found  # else the comparison shows nothing


def plain_fresh_loss(run: Any, data: DataSet) -> np.ndarray:
    """-ln alpha of the fresh sequences by dense numpy."""
    P = data.fresh.P.toarray()
    Y = dense_decoder(run.Y, run.decoder_rows, run.decoder_outputs, (data.num_tokens, data.vocab_size))
    losses = []
    for z, decoder in zip(run.z, Y, strict=True):
        c = P * np.exp(z[data.fresh.query_index])
        w = (c / np.linalg.norm(c, axis=1, keepdims=True)) @ decoder
        right = w[np.arange(len(P)), data.fresh.next_token]
        losses.append(data.fresh.prior @ (np.log(np.exp(w).sum(axis=1)) - right))
    return np.array(losses)


@pytest.mark.parametrize("N", [1, 6])
def test_observables_of_runs_on_stored_sequences(N: int, tmp_path: Path) -> None:
    """Assert attention on spurious tokens and the loss on fresh sequences, by dense numpy, for flows and for SGD."""
    data = data_set(random_classes(3, 12, 3, seed=4), N, 10)
    assert data.spurious.size
    # Some tokens of fresh sequences are in no stored one: their rows of Y are 0.
    assert N > 1 or not set(data.fresh.P.indices) <= set(data.P.indices)
    flow = integrate(MeanField(data, 1.0, 1.0), [0.0, 5.0, 200.0], save_decoder=True)
    trained = sgd(data, 0.2, 0.2, 100, record=[0, 50, 100], save_decoder=True)
    for run in (flow, trained):
        expected = run.attention[:, :, data.spurious[:, 1]].sum(axis=2) @ data.prior
        np.testing.assert_allclose(run.observable("spurious_attention"), expected, rtol=1e-12)
        np.testing.assert_allclose(run.observable("fresh_loss"), plain_fresh_loss(run, data), rtol=1e-10)
    assert flow.observable("fresh_loss")[-1] > 1.05 * flow.loss[-1]
    stored = load(flow.save(tmp_path / "run.nc"))
    np.testing.assert_array_equal(stored.observable("spurious_attention"), flow.observable("spurious_attention"))
    for run, name in ((stored, "fresh_loss"), (integrate(MeanField(source(), 1.0, 1.0), [1.0]), "spurious_attention")):
        with pytest.raises(InputError) as error:
            run.observable(name)
        assert "sd.data_set" in sentence(error)
    with pytest.raises(InputError, match="save_decoder"):
        integrate(MeanField(data, 1.0, 1.0), [1.0]).observable("fresh_loss")
    for settings in ({"init": "uniform"}, {"residual": True}):
        with pytest.raises(InputError, match="from Y = 0"):
            sgd(data, 0.2, 0.2, 2, save_decoder=True, **settings).observable("fresh_loss")


def test_fresh_sequences_have_the_proportions_of_the_stored() -> None:
    """Assert numbers and classes of the fresh sequences, and that a pickled data set has the same."""
    data = data_set(source(), [1, 0, 2, 2], 3)
    np.testing.assert_array_equal(data.fresh.sequences, [400, 0, 800, 800])
    np.testing.assert_array_equal(data.fresh.queries, data.queries)
    np.testing.assert_array_equal(data.fresh.next_tokens, data.next_tokens)
    again = pickle.loads(pickle.dumps(data))
    assert again == data
    assert again.fresh == data.fresh


BAD: dict[str, dict[str, Any]] = {
    "sd.SequenceClasses": {"classes": [[1.0]]},
    "at least one sequence": {"sequences": 0},
    "received 'some'": {"sequences": "some"},
    "sequences of shape (2,)": {"sequences": [1, 2, 3]},
    "received [0, 0]": {"sequences": [0, 0]},
    "sequences to be a whole number of at least 0": {"sequences": [1, -1]},
    "received 1.5": {"sequences": 1.5},
    "seq_len": {"seq_len": 0},
    "in 1..2147483647": {"seq_len": 2**31},
    "free memory": {"sequences": 10**12},
    "seed": {"seed": -1},
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_input_is_refused_in_one_sentence(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one sentence that names the fault."""
    monkeypatch.setattr(memory, "free_memory", lambda: 2.0**30)
    given = {"classes": single_common_token(2, 1, 0.3), "sequences": 2, "seq_len": 3} | BAD[fault]
    with pytest.raises(InputError) as error:
        data_set(**given)
    assert fault in sentence(error)
