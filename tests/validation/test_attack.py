"""The adversary: false statements fall and are stored, true ones stand, and its budget counts measurements."""

import json
from dataclasses import replace

import numpy as np
import pytest

import snapdyn as sd
from snapdyn.validation.attack import SECOND_SOLVER, attacked, store, store_worst, targets
from snapdyn.validation.claims import chosen_claims
from snapdyn.validation.engine import examine
from snapdyn.validation.rungs.run import MEAN_FIELD
from snapdyn.validation.search.counterexamples import Counterexample
from snapdyn.validation.search.instance import Instance
from snapdyn.validation.search.instance_runs import flow
from tests.validation.helpers import claim_of


def largest_overlap(instance: Instance) -> sd.Measured:
    """A statement that nearly all draws keep: no two classes overlap by more than 0.999999."""
    G = instance.gram - np.eye(instance.num_classes)
    return sd.Measured(G.max(), at_most=0.999999)


FALSE = sd.Property("largest overlap", "linear algebra", largest_overlap, sd.Family("any", "any"))
MINE = claim_of(properties=FALSE)


def test_a_false_statement_falls_and_is_stored(tmp_path) -> None:
    found = attacked(MINE, 0, 2.0, seed=3)
    assert found.confirmed
    assert found.worst.value > 0.999999
    assert found.evaluations >= found.tried >= 400
    assert len(found.counterexample["P"]) == 2  # simplified
    path = store(found, tmp_path, 3)
    entries = json.loads(path.read_text())
    stored = Counterexample(**(entries | {"instance": Instance.from_dict(entries["instance"])}))
    assert largest_overlap(stored.instance).value > 0.999999
    assert stored.mechanism == ""


def test_a_counterexample_must_survive_a_second_integrator() -> None:
    """Assert that what only the first integrator shows is not confirmed."""

    def first_only(instance: Instance) -> sd.Measured:
        return sd.Measured(0.0 if instance.solver else 1.0, at_most=0.5)

    found = attacked(claim_of(properties=replace(FALSE, measure=first_only)), 0, 0.1, seed=1)
    assert found.counterexample is not None
    assert not found.confirmed


def test_a_measure_that_raises_costs_the_others_nothing() -> None:
    def raising(instance: Instance) -> sd.Measured:
        raise ZeroDivisionError("no overlap")

    found = attacked(claim_of(properties=replace(FALSE, measure=raising)), 0, 0.1, seed=1)
    assert found.worst is None
    assert "ZeroDivisionError" in found.place


def test_the_second_integrator_is_another_one() -> None:
    instance = Instance.of(sd.syn_small(), 1.0, 0.5, 100.0)
    first, second = (flow(each, MEAN_FIELD) for each in (instance, replace(instance, solver=SECOND_SOLVER)))
    assert first.stats != second.stats
    assert first.z[-1] == pytest.approx(second.z[-1], rel=1e-6)


def test_only_what_the_register_lets_hold_is_attacked() -> None:
    entries = {entry.id: entry for entry in chosen_claims(None)}
    attacked_ids = {entry.id for entry, _ in targets(list(entries.values()))}
    assert "lemma13" in attacked_ids
    for entry, number in targets(list(entries.values())):
        prop = entry.properties[number]
        assert prop.domain is not None
        assert prop.corrected or entry.expected in ("holds", "conditional")


def test_the_worst_case_of_a_search_is_tried_first_by_the_next(tmp_path) -> None:
    """Assert that a bound which only the stored instance reaches is seen to be reached by a search of one draw."""
    prop = replace(FALSE, measure=lambda instance: sd.Measured(instance.gram.min(), at_most=2.0), evaluations=(40, 40))
    mine = claim_of(properties=prop)
    found = attacked(mine, 0, 1.0, seed=5)
    other = replace(found, claim="another", worst=sd.Measured(0.1, at_most=1.0))
    fallen = replace(found, claim="false", worst=sd.Measured(3.0, at_most=1.0))
    store_worst([other, found, fallen], tmp_path)
    store_worst([replace(other, instance=found.instance, worst=sd.Measured(0.2, at_most=1.0))], tmp_path)
    entries = json.loads((tmp_path / "worst.json").read_text())
    assert [(each["claim"], each["value"]) for each in entries] == [("another", 0.2), (mine.id, found.worst.value)]
    stored = Instance.from_dict(entries[1]["instance"])
    alone = examine(prop, 1, 6)
    after = examine(prop, 1, 6, known=[stored])
    assert alone.worst.measured.value < found.worst.value == after.worst.measured.value
    assert after.worst.instance is stored
    outside = replace(stored, vocab_size=10**13)
    assert examine(prop, 1, 6, known=[outside]).worst.measured == alone.worst.measured


def test_a_condition_that_is_needed_is_remembered(tmp_path) -> None:
    """Assert that a search without the condition meets the stored instance at once, and falls."""
    few = sd.validation.Requirement("few", "x <= 0.5", lambda p: p["x"], at_most=0.5)
    box = sd.Box(x=(0.0, 1.0), y=(0.0, 1.0))
    prop = sd.Property(
        "x", "arithmetic", lambda p: sd.Measured(p["x"], at_most=0.5), box, (few,), evaluations=(30, 30), directed=False
    )
    found = attacked(claim_of(properties=prop), 0, 1.0, seed=5)
    assert found.worst.holds
    assert set(found.needs) == {"few"}
    assert found.needs["few"]["x"] > 0.5
    store_worst([found], tmp_path)
    entries = json.loads((tmp_path / "worst.json").read_text())
    assert [each.get("needs") for each in entries] == [None, "few"]
    after = examine(replace(prop, conditions=()), 1, 6, known=[entries[1]["instance"]])
    assert not after.worst.measured.holds
