"""Orders: the power of its small parameter with which the error of each approximation of the ladder falls."""

from functools import cache, partial

from snapdyn.validation.rungs.orders import BATCH, LENGTH, SPREAD, STEP, Fit, measured_fits
from snapdyn.validation.statement import DECISIVE, LEADING, MEAN_FIELD, REDUCED, SGD, Claim, Measured, Property


@cache
def fits() -> dict[str, Fit]:
    """The fits of level quick by their names."""
    return {fit.name: fit for fit in measured_fits("quick")}


def distance(name: str, wrong: bool = False) -> Measured:
    """Distance of a fitted order, or of the `wrong` theory's, from the order that theory gives.

    The bound allows for noise and for further terms of the fit.
    """
    fit = fits()[name]
    order = fit.wrong_order if wrong else fit.order.corrected
    return Measured(abs(order - fit.expected), at_most=min(fit.order.margin(), DECISIVE))


# Rung, wrong theories of its fits, names of the fits.
FITTED = (
    (MEAN_FIELD, "one seed for descent", (STEP,)),
    (
        SGD,
        "one sequence for the mean, a fixed number of steps, one class per batch, times for seeds",
        (LENGTH, SPREAD, BATCH, "spread of the mean, in seeds"),
    ),
    (
        LEADING,
        "the mean field for exact beta",
        ("exact to leading beta, in 1/V", "exact to leading beta, in lambda_1"),
    ),
    (REDUCED, "(13) as printed", ("leading beta to (13), in lambda_1",)),
)

CLAIM = Claim(
    "orders",
    source="own; ladder of approximations",
    title="Every approximation errs at the order that theory gives",
    statement=(
        "At fixed eta t the gap from descent to the mean field is O(eta), the bias of sequences of length T is "
        "O(1/T), the spread of seeds is O(sqrt(eta/batch)) and that of their mean O(1/sqrt(seeds)), and the reduced "
        "system (13) errs by O(lambda_1). The leading beta errs by O(1/(V lambda_1)): it needs an overlap that is "
        "not too small."
    ),
    latex=r"O(\eta),\quad O(1/T),\quad O(\sqrt{\eta/B}),\quad O(1/\sqrt{\text{seeds}}),\quad O(\lambda_1),\quad "
    r"O\!\left(\tfrac{1}{V\lambda_1}\right)",
    conclusion=(
        "Holds: the fitted orders agree with theory, and the orders that wrong theories give do not. The fitted "
        "exponents are off by {exact to leading beta, in lambda_1:.1g} for flows, {bias of finite T, in 1/(T-1):.1g} "
        "for finite T, and {spread of the seeds, in eta at batch 1:.1g} for the spread of seeds."
    ),
    properties=tuple(
        Property(
            "distance of the fitted order from theory",
            rung,
            distance,
            controls={f"wrong theory: {wrong}": partial(distance, wrong=True)},
            cases={name: name for name in names},
        )
        for rung, wrong, names in FITTED
    ),
)
