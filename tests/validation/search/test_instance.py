"""Instances as plain data."""

import json
from dataclasses import replace

import numpy as np
import pytest

from snapdyn.core import memory
from snapdyn.core.errors import InputError
from snapdyn.dynamics import Adam, SignDescent, single_common_token
from snapdyn.validation.search.family import Family
from snapdyn.validation.search.instance import Instance


def test_instances_keep_every_bit_in_json() -> None:
    """Assert that an instance comes back from its text bit by bit, with its rules of descent."""
    rules = Adam(beta2=0.9), SignDescent()
    instance = replace(Family("any", "any", uniform=False).draw(11, 3), optimizer=rules)
    back = Instance.from_dict(json.loads(json.dumps(instance.to_dict())))
    assert back.to_dict() == instance.to_dict()
    np.testing.assert_array_equal(back.P, instance.P)
    assert back.rules == instance.rules == rules
    assert replace(instance, optimizer="sgd").rules is None


def test_an_instance_is_plain_data() -> None:
    """Assert what an instance says of itself, on one worked by hand."""
    P = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    instance = Instance(P, np.zeros(2, dtype=np.int64), np.ones(2), 40, 2.0, 0.5, 10.0)
    assert instance.ratio == 0.25
    assert instance.uniform
    assert instance.gram == pytest.approx(np.array([[1.0, 0.5], [0.5, 1.0]]))
    assert instance.correlation == pytest.approx(1.0)
    assert instance.classes.P.toarray() == pytest.approx(P / 2)


def test_an_instance_beyond_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert one sentence, before anything is allocated, where one gigabyte is free."""
    monkeypatch.setattr(memory, "free_memory", lambda: 2.0**30)
    with pytest.raises(InputError, match="fit into the free memory of 1 GiB"):
        Instance.of(single_common_token(20_000, 1, 0.5), 1.0, 1.0, 1.0)
