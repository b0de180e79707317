"""The engine finds counterexamples, keeps to its budget, and refuses controls that say nothing."""

import numpy as np
import pytest

import snapdyn as sd
from snapdyn import analytic
from snapdyn.validation.engine import examine, search_property
from snapdyn.validation.evidence import SEED
from snapdyn.validation.search import Instance, stored_counterexamples

WIDE = sd.Family("wide", "any", uniform=False, num_classes=(1, 6), vocab_size=(2, 10**12), eta_Y=(1e-6, 1e6))


def largest_overlap(instance: Instance) -> sd.Measured:
    """Largest overlap over |lambda_1|, at most 1 (Lemma 13)."""
    E = instance.gram - np.eye(len(instance.gram))
    norm = np.abs(np.linalg.eigvalsh(E)).max()
    return sd.Measured(E.max() / norm if norm > 0 else 0.0, at_most=1 + 1e-12)


def half_of_it(instance: Instance) -> sd.Measured:
    """Wrong theory: |lambda_1|/(K-1) bounds every overlap."""
    E = instance.gram - np.eye(len(instance.gram))
    norm = np.abs(np.linalg.eigvalsh(E)).max()
    return sd.Measured(E.max() * (len(E) - 1) / norm if norm > 0 else 0.0, at_most=1 + 1e-12)


LEMMA_13 = sd.Property(
    "overlap", "linear algebra", largest_overlap, WIDE, controls={"K - 1": half_of_it}, evaluations=(120, 400)
)


def test_a_true_statement_survives_and_its_wrong_theory_does_not() -> None:
    found = examine(LEMMA_13, "quick", SEED)
    assert found.worst is not None
    assert found.worst.measured.holds
    assert 120 <= found.tried <= 120 + len(stored_counterexamples()) + 2 * 8  # a simplex may end a few beyond
    count, case = found.controls["K - 1"]
    assert count > 10
    assert not case.measured.holds


def test_the_same_seed_gives_the_same_numbers_and_another_one_others() -> None:
    first, again, other = (examine(LEMMA_13, "quick", seed) for seed in (1, 1, 2))
    assert first.tried == again.tried
    assert first.worst.measured == again.worst.measured
    assert first.worst.instance.to_dict() == again.worst.instance.to_dict()
    drawn, drawn_again, elsewhere = (found.controls["K - 1"][1].instance.to_dict() for found in (first, again, other))
    assert drawn == drawn_again != elsewhere


def early_gamma(instance: Instance) -> sd.Measured:
    """exp(V h) <= (V-1) V h at the first visit, which fails for a slow decoder."""
    V = instance.vocab_size
    u = V * float(analytic.h(1.0, instance.eta_Y, V))
    return sd.Measured(u - np.log(V - 1) - np.log(u), at_most=0.0)


def test_a_statement_that_fails_in_a_corner_is_found_and_simplified() -> None:
    # u = eta_Y at the first visit of a slow decoder: exp(u) exceeds (V-1) u once eta_Y < 1/V.
    evidence = sd.Evidence()
    large = sd.Requirement("large V", "V >= 4", lambda i: i.vocab_size, at_least=4, defining=True)
    search_property(sd.Property("u", "closed form", early_gamma, WIDE, (large,), evaluations=(40, 40)), evidence)
    assert not evidence.checks[0].passed
    simplified = Instance.from_dict(evidence.counterexample)
    assert not early_gamma(simplified).holds
    assert simplified.num_classes <= 2


def test_a_condition_makes_the_boundary_visible() -> None:
    quick = sd.Requirement("fast", "eta_Y V >= 10", lambda i: i.eta_Y * i.vocab_size, at_least=10)
    large = sd.Requirement("large V", "V >= 4", lambda i: i.vocab_size, at_least=4, defining=True)
    slow = sd.Requirement("at most 1", "eta_Y <= 1", lambda i: i.eta_Y, at_most=1)
    prop = sd.Property("u", "closed form", early_gamma, WIDE, (large, quick, slow), evaluations=(120, 120))
    evidence = sd.Evidence()
    found = search_property(prop, evidence)
    assert found.worst.measured.holds
    assert found.fails_outside > 0
    assert [check.role for check in evidence.checks] == ["statement", "outside"]
    assert not evidence.checks[1].passed


@pytest.mark.parametrize("mirror", [lambda x: -x, lambda x: 3 * x + 1, lambda x: 1 / x if x else 0.0])
def test_a_control_that_follows_from_the_statement_is_refused(mirror) -> None:
    def mirrored(instance: Instance) -> sd.Measured:
        return sd.Measured(mirror(largest_overlap(instance).value), at_least=1e9)

    prop = sd.Property(
        "overlap", "linear algebra", largest_overlap, sd.Family("weak"), controls={"m": mirrored}, evaluations=(20, 20)
    )
    with pytest.raises(sd.InputError, match="computed from a wrong theory"):
        search_property(prop, sd.Evidence())


def test_runs_that_fail_are_counted_and_never_pass_silently() -> None:
    prop = sd.Property("x", "r", lambda i: None, sd.Family("f"), evaluations=(10, 10))
    found = examine(prop, "quick", 0)
    assert found.undecided >= 7
    assert found.tried == 0
    with pytest.raises(sd.InputError, match="received none"):
        search_property(prop, sd.Evidence())


def test_nan_is_an_error() -> None:
    prop = sd.Property("x", "r", lambda i: sd.Measured(np.nan, at_most=1), sd.Family("f"), evaluations=(10, 10))
    with pytest.raises(RuntimeError, match="NaN"):
        examine(prop, "quick", 0)


def test_corners_hold_the_ends_of_all_ranges() -> None:
    corners = list(WIDE.corners(0, 1000))
    assert {corner.num_classes for corner in corners} == {1, 6}
    assert {corner.vocab_size for corner in corners} >= {10**12}
    assert {round(np.log10(corner.eta_Y)) for corner in corners} == {-6, 6}
    assert len(corners) == 2**5
    assert len(list(WIDE.corners(0, 5))) == 5


def test_a_family_knows_its_own_instances() -> None:
    family = sd.Family("f", num_classes=(2, 5), vocab_size=(10, 100))
    for number in range(40):
        instance = family.draw(0, number)
        assert family.contains(instance)
        assert not sd.Family("f", num_classes=(2, 5), vocab_size=(200, 300)).contains(instance)
        assert not sd.Family("f", num_classes=(2, 5), vocab_size=(10, 100), horizon=(1.0, 2.0)).contains(instance)
        assert sd.Family("f", uniform=False, num_classes=(2, 5), vocab_size=(10, 100)).contains(instance)
    strong = sd.Family("f", "strong", num_classes=(2, 5), vocab_size=(10, 100)).draw(0, 0)
    assert not family.contains(strong)


def test_a_large_numerical_error_hides_no_failure() -> None:
    """Assert that the worst case is the one that fails most beyond its own error."""

    def measure(instance: Instance) -> sd.Measured:
        coarse = instance.num_classes % 2 == 0
        return sd.Measured(5.0 if coarse else 2.0, at_most=1.0, error=10.0 if coarse else 0.1)

    found = examine(sd.Property("x", "r", measure, sd.Family("f"), evaluations=(20, 20), directed=False), "quick", 0)
    assert found.worst.measured.value == 2.0
    evidence = sd.Evidence()
    search_property(sd.Property("x", "r", measure, sd.Family("f"), evaluations=(20, 20), directed=False), evidence)
    assert not evidence.checks[0].passed


def test_a_control_within_its_error_is_not_rejected() -> None:
    wrong = {"w": lambda i: sd.Measured(1.05, at_most=1.0, error=0.1)}
    family = sd.Family("f")
    prop = sd.Property("x", "r", lambda i: sd.Measured(i.ratio, at_most=1e9), family, (), wrong, (10, 10))
    evidence = sd.Evidence()
    search_property(prop, evidence)
    assert evidence.checks[-1].role == "control"
    assert evidence.checks[-1].passed


def test_mostly_failed_runs_are_no_evidence() -> None:
    def measure(instance: Instance) -> sd.Measured | None:
        return sd.Measured(0.0, at_most=1.0) if instance.num_classes == 4 else None

    with pytest.raises(sd.InputError, match="on most instances"):
        search_property(
            sd.Property("x", "r", measure, sd.Family("f"), evaluations=(40, 40), directed=False), sd.Evidence()
        )
