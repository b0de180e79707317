"""Lemma 3: the modified flow decouples the classes."""

from snapdyn.validation.claims.decoder._shared import OVERLAPS, flow_against, modified_mixing
from snapdyn.validation.claims.language import (
    INDEPENDENT_ATTENTION,
    Claim,
    Property,
)

CLAIM = Claim(
    "lemma3",
    source="Lemma 3, Eqs. (8), (26)",
    title="Under the modified flow of the decoder, classes do not act on each other",
    statement=(
        "With f_n replaced by f_n - F E' e_n in the update of Y, the logits w_n = Y^T f_n of each class follow w_n' "
        "= eta_Y (e_n - alpha_n), independently of the other classes, even if classes share a next token."
    ),
    latex=r"\dot Y=\eta_Y (f_n-FE'e_n)(e_n-\alpha_n)^\top\ \Rightarrow\ \dot w_n=\eta_Y(e_n-\alpha_n)",
    conditions=("attention frozen", "attention vectors f_n linearly independent"),
    conclusion="Exact for the modified flow at any overlap; the original flow (7) does not decouple. "
    "F^T (F - F E') = I is proved for any number of classes.",
    grade="proved",
    properties=(
        Property(
            "logits of all classes by scipy against (V-1) h(p_n t) zeta_n of each alone, relative to the largest",
            "modified decoder",
            lambda instance: flow_against(instance, modified_mixing(instance)),
            OVERLAPS,
            conditions=(INDEPENDENT_ATTENTION,),
            controls={
                "wrong theory: the original flow (7) decouples too": lambda instance: flow_against(
                    instance, instance.gram
                ),
                "wrong theory (F18): E' = (I+E)^{-1} - I, as in Appendix D.1": lambda instance: flow_against(
                    instance, modified_mixing(instance, -1.0)
                ),
            },
            evaluations=(16, 1000),
            directed=False,
        ),
    ),
    proved=("modified-flow",),
    findings=("F18",),
)
