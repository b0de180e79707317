"""A family may be narrower than the words of its claim: statements on instances with one restriction of it lifted.

A search draws from the family alone. What its conditions admit beyond it must hold there, too: `check` measures it.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from snapdyn.validation import Family, Property
from snapdyn.validation.claims import claims_of_chapter
from snapdyn.validation.search.instance import Instance

DRAWS, SEED = 25, 4242  # of each family with a restriction lifted
LIFTED = {
    "correlation": "any", "uniform": False, "shared_by_all": False, "equal_profiles": False, "shared_next_tokens": True,
}  # fmt: skip
# V is never below that of the family, which may choose tokens as queries that occur in no sequence.
WIDE = {
    "num_classes": (1, 6), "num_queries": (1, 3), "num_common": (0, 3), "num_distinct": (0, 4),
    "vocab_size": (10**12, 10**12), "eta_Y": (1e-4, 10.0), "ratio": (1e-6, 1e6), "horizon": (1e-2, 1e6),
}  # fmt: skip
CHAPTERS = (
    "gradient", "attention", "decoder", "transition", "correlation", "concentration", "approximations", "extensions",
    "adam", "small_data",
)  # fmt: skip


def wider(domain: Family) -> Iterator[tuple[str, Family]]:
    """The family with one restriction lifted, by the name of this restriction."""
    ranges = {name: (getattr(domain, name), wide) for name, wide in WIDE.items()}
    wider_ranges = {name: (min(own[0], wide[0]), max(own[1], wide[1])) for name, (own, wide) in ranges.items()}
    for name, value in (LIFTED | wider_ranges).items():
        if getattr(domain, name) != value:
            yield name, replace(domain, **{name: value})


def failures(prop: Property) -> tuple[int, list[str]]:
    """How many instances beside the family of a property meet its conditions, and those of them on which it fails."""
    inside, found = 0, []
    for name, family in wider(prop.domain):
        for number in range(DRAWS):
            try:
                instance = family.draw(SEED, number)
            except RuntimeError:  # a subclass of Family whose own restriction leaves nothing here
                break
            reading = None if prop.domain.contains(instance) else prop.at(instance, beyond=False)
            if reading is None or reading.unmet or reading.measured is None:
                continue
            inside += 1
            if not reading.measured.holds and not prop.with_rounding(instance, reading.measured).holds:
                found.append(f"{prop.name}: {name} = {getattr(family, name)}, draw {number}: {reading.measured}")
    return inside, found


@pytest.mark.long
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_statements_hold_wherever_their_conditions_are_met(chapter) -> None:
    """Assert that no statement fails beside its family, but for printed forms that the claim corrects."""
    claims = claims_of_chapter(chapter).values()
    properties = [
        prop for claim in claims for prop in claim.properties
        if isinstance(prop.domain, Family) and (prop.corrected or claim.expected != "corrected")
    ]  # fmt: skip
    results = [failures(prop) for prop in properties]
    assert sum(inside for inside, _ in results) > 0
    assert not [line for _, found in results for line in found]


@pytest.mark.slow
def test_a_missing_condition_is_noticed() -> None:
    """Assert that a statement for equal priors without this condition, whose family has equal priors, fails."""
    (prop, *_) = (p for p in claims_of_chapter("decoder")["remark1"].properties if isinstance(p.domain, Family))
    kept = tuple(condition for condition in prop.conditions if condition.name != "equal priors")
    assert len(kept) < len(prop.conditions)
    assert not failures(prop)[1]
    assert failures(replace(prop, conditions=kept))[1]


PAIR = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
RARE = {"weights": [0.015, 0.985], "vocab_size": 10**9}
UNEQUAL = [[0.6, 0.06, 0.34, 0.0, 0.0], [0.35, 0.0, 0.0, 0.62, 0.03]]


@pytest.mark.parametrize(
    ("chapter", "claim", "index", "P", "rates_and_time", "options"),
    [
        ("small_data", "stored-loss", 0, PAIR, (1.0, 1e5, 10.0), {"seq_len": 10}),
        ("approximations", "momentum-clock", 1, PAIR, (5.0, 1.0, 1e-3), {}),
        ("attention", "theorem3-bounds", 1, UNEQUAL, (0.5, 1e5, 1.6e5), RARE),
        ("extensions", "layer-norm", 1, [[1.0], [1.0]], (1.0, 1.0, 10.0), {}),
        ("extensions", "layer-norm", 6, [[1.0, 0.0], [0.0, 1.0]], (1.0, 1.0, 10.0), {}),
    ],
    ids=["attention moves early", "less than a step", "before the first save", "one token", "no overlap"],
)  # fmt: skip
def test_measures_that_erred_beside_their_family(chapter, claim, index, P, rates_and_time, options) -> None:
    """Assert that no statement fails where its measure once gave a number that is wrong, or NaN."""
    at = {"query": np.zeros(2, int), "weights": [1.0, 1.0], "vocab_size": 20} | options
    instance = Instance(np.array(P), eta_Y=rates_and_time[0], eta_Z=rates_and_time[1], t_end=rates_and_time[2], **at)
    reading = claims_of_chapter(chapter)[claim].properties[index].at(instance)
    assert reading.unmet or reading.measured is None or reading.measured.holds
