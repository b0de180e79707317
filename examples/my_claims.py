"""A user-defined claim: snapdyn validate common-tokens-fall --load examples/my_claims.py"""

import snapdyn as sd


@sd.claim(
    "common-tokens-fall",
    source="user example",
    title="Common tokens lose attention",
    statement="On syn_small, in the full mean field, common tokens end with less attention than they begin with.",
    latex=r"\sum_{c\ \mathrm{common}}c_{nc}(t)<\sum_{c\ \mathrm{common}}c_{nc}(0)",
)
def common_tokens_fall(level: str) -> sd.Evidence:
    classes = sd.syn_small()
    run = sd.integrate(sd.MeanField(classes, eta_Y=1.0, eta_Z=0.1), sd.log_times(1, 1e4 if level == "quick" else 1e6))
    common = run.attention[:, 0, classes.common_tokens()].sum(axis=1)
    return sd.Evidence(
        [
            sd.Check("common tokens: end over start", "mean field", common[-1] / common[0], 1.0),
            sd.Check(
                "wrong: distinct tokens also fall",
                "mean field",
                (1 - common[-1]) / (1 - common[0]),
                1.0,
                role="control",
            ),
        ],
        f"The attention of class 0 to common tokens falls from {common[0]:.3f} to {common[-1]:.3f}.",
        sd.Picture("t (batch-size-1 steps)", "attention", (sd.Picture.line("common tokens", run.t, common),)),
    )
