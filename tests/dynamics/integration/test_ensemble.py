"""Ensembles: many systems at once, each as if alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from snapdyn.dynamics import (
    Event,
    MeanField,
    ModifiedDecoder,
    System,
    integrate,
    log_times,
    syn_small,
)
from snapdyn.dynamics.integration import recorder
from snapdyn.dynamics.integration.driver import integrate_many
from snapdyn.dynamics.systems.base import ConservedSum
from snapdyn.errors import InputError
from tests.dynamics.dense_reference import random_instance
from tests.dynamics.integration.helpers import mean_field_system, overflowing


def members() -> list[System]:
    rng = np.random.default_rng(0)
    classes = syn_small()
    return [MeanField(classes, *np.exp(rng.uniform(-2, 2, 2))) for _ in range(12)]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("z_only", [False, True])
@pytest.mark.parametrize("reduce", [False, True])
def test_ensemble_equals_single_runs(threads: int, z_only: bool, reduce: bool) -> None:
    """Assert bit-identical members in their order, whatever the number of threads, one system given twice."""
    systems = members()
    systems.append(systems[0])
    times = log_times(0.1, 1e3, 20)
    runs = integrate_many(systems, times, threads=threads, z_only=z_only, reduce=reduce)
    for system, run in zip(systems, runs, strict=True):
        single = integrate(system, times, z_only=z_only, reduce=reduce)
        np.testing.assert_array_equal(run.z, single.z)
        np.testing.assert_array_equal(run.loss, single.loss)
        assert run.invariants.keys() == single.invariants.keys()
        for name, violation in run.invariants.items():
            np.testing.assert_array_equal(violation, single.invariants[name])
        assert (run.parameters, run.stats, run.status) == (system.parameters, single.stats, "finished")
        np.testing.assert_array_equal(run(5.0), single(5.0))
    assert len({float(run.z[-1].max()) for run in runs}) == len(systems) - 1


@pytest.mark.parametrize("z_only", [False, True])
def test_members_have_values_of_their_own(z_only: bool) -> None:
    """Assert that members have their events of their single runs, and share no mapping or list."""
    half = Event(lambda t, state: state.z_support[..., 0] + 1e-3, vectorized=True)
    systems, times = members(), log_times(0.1, 1e3, 20)
    runs = integrate_many(systems, times, z_only=z_only, events={"half": half})
    for system, run in zip(systems, runs, strict=True):
        single = integrate(system, times, z_only=z_only, events={"half": half})
        assert [(each.name, each.t) for each in run.events] == [(each.name, each.t) for each in single.events]
        assert vars(run).keys() == vars(single).keys()
    assert any(run.events for run in runs)
    for name in ("parameters", "stats", "invariants", "extra", "observables", "state_shapes", "events"):
        assert len({id(getattr(run, name)) for run in runs}) == len(runs)


@pytest.mark.parametrize("z_only", [False, True])
def test_a_violated_sum_fails_its_member(z_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a member whose row sums leave their bound fails with the message of its single run."""
    systems = members()
    bound = recorder.violation_bound

    def none_for_the_slowest(conserved: ConservedSum, run: Mapping[str, Any]) -> np.ndarray:
        few = np.asarray(run["evaluations"]) <= fewest
        return np.where(few, -1.0, bound(conserved, run))

    fewest = 0
    counts = [run.stats["evaluations"] for run in integrate_many(systems, [10.0, 1e3], z_only=z_only)]
    fewest = min(counts)
    monkeypatch.setattr(recorder, "violation_bound", none_for_the_slowest)
    runs = integrate_many(systems, [10.0, 1e3], z_only=z_only)
    for system, run, count in zip(systems, runs, counts, strict=True):
        single = integrate(system, [10.0, 1e3], z_only=z_only)
        assert (run.status, run.message) == (single.status, single.message)
        assert run.status == ("failed" if count == fewest else "finished")


def test_failure_of_one_member_stops_no_other() -> None:
    """Assert statuses member by member, and one sentence for a member that is no system or a bad option."""
    systems = [mean_field_system(), overflowing(), mean_field_system()]
    runs = integrate_many(systems, [1.0, 2.0], threads=2)
    assert [run.status for run in runs] == ["finished", "failed", "finished"]
    assert "failed at t = " in runs[1].message
    assert [run.t.size for run in runs] == [2, 0, 2]
    assert integrate_many([], [1.0]) == []
    bad: list[Callable[[], Any]] = [  # wrong types are the point of the ignored errors
        lambda: integrate_many([3], [1.0]),  # type: ignore[list-item]
        lambda: integrate_many(np.array(1.0), [1.0]),  # type: ignore[arg-type]
        lambda: integrate_many(sparse.csr_array(np.eye(2)), [1.0]),
        lambda: integrate_many([systems[0].classes], [1.0]),  # type: ignore[list-item]
        lambda: integrate_many(systems[0], [1.0]),  # type: ignore[arg-type]
        lambda: integrate_many(systems, [1.0], progress="a"),  # type: ignore[arg-type]
        lambda: integrate_many(systems, [1.0], threads=0),
        lambda: integrate_many(systems, [2.0, 1.0]),
        lambda: integrate_many(systems, [1.0], method="compile"),
    ]
    for call in bad:
        with pytest.raises(InputError, match=r"^expected "):
            call()
    without_decoder = ModifiedDecoder(random_instance(3).classes(), 1.0, 1.0)
    with pytest.raises(InputError, match=r"^expected a system that carries Y.* \(systems\[1\]\)$"):
        integrate_many([systems[0], without_decoder], [1.0], save_decoder=True)


def test_ctrl_c_in_an_ensemble_keeps_finished_members() -> None:
    """Assert that an interrupt after 3 members returns 12 trajectories, finished or interrupted."""

    def interrupt(finished: int, total: int) -> None:
        assert total == 12
        if finished == 3:
            raise KeyboardInterrupt

    runs = integrate_many(members(), [1e3], threads=1, progress=interrupt)
    statuses = [run.status for run in runs]
    assert len(statuses) == 12
    assert statuses.count("finished") >= 3
    assert set(statuses) <= {"finished", "interrupted"}


def test_an_ensemble_is_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that progress counts all members over the parts, and that Ctrl-C in the first part ends the others."""
    monkeypatch.setattr("snapdyn.dynamics.integration.driver.MEMBERS_TOGETHER", 5)
    seen: list[tuple[int, int]] = []
    runs = integrate_many(members(), [1.0, 10.0], threads=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 12) for done in range(1, 13)]
    for system, run in zip(members(), runs, strict=True):
        np.testing.assert_array_equal(run.z, integrate(system, [1.0, 10.0]).z)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    stopped = integrate_many(members(), [1e3], threads=1, progress=interrupt)
    assert [run.status for run in stopped[5:]] == ["interrupted"] * 7
