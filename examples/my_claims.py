"""A claim of your own: snapdyn validate common-tokens-fall --load examples/my_claims.py"""

import snapdyn as sd


def change(instance: sd.Instance, tokens) -> sd.Measured:
    """Attention on `tokens` at t_end over that at the start in the full mean field, largest over classes."""
    system = sd.MeanField(instance.classes, instance.eta_Y, instance.eta_Z)
    attention = sd.integrate(system, [0.0, instance.t_end]).attention[:, :, tokens].sum(axis=2)
    return sd.Measured((attention[1] / attention[0]).max(), at_most=1.0, error=1e-12)  # of rounding


FALL = sd.Property(
    "attention on the common token, end over start",
    "mean field",
    lambda instance: change(instance, instance.classes.common_tokens()),
    # Where to search: one common token, one query, slow attention; V, priors and overlaps vary.
    sd.Family(
        "one common token", "any", uniform=False, num_common=(1, 1), shared_by_all=True, num_queries=(1, 1),
        ratio=(1e-3, 1e-2), horizon=(1.0, 1e3),
    ),
    controls={"wrong theory: distinct tokens lose attention": lambda i: change(i, i.classes.distinct_tokens())},
)  # fmt: skip


def picture() -> sd.Picture:
    classes = sd.single_common_token(3, 4, 0.2, 100)
    run = sd.integrate(sd.MeanField(classes, eta_Y=1.0, eta_Z=0.01), sd.log_times(1, 1e3))
    common = run.attention[:, 0, classes.common_tokens()].sum(axis=1)
    return sd.Picture("t (batch-size-1 steps)", "attention", (sd.Picture.line("common token", run.t, common),))


sd.register(
    sd.Claim(
        "common-tokens-fall",
        source="user example",
        title="The common token loses attention",
        statement="With one common token of one query, and attention 100 times slower than the decoder, every class "
        "ends with less attention on it than it began with.",
        latex=r"c_{nc}(t)<c_{nc}(0)",
        conclusion="No counterexample in this family; where attention has hardly moved the ratio comes near to 1.",
        properties=FALL,
        picture=picture,
    )
)
