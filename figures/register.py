"""The register of figures: what each shows, and where it is computed and drawn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FigureEntry:
    """A figure of the register; its id is the paper's number, or a name where the paper has no such figure.

    Figure 3 is made by the module `figure_3`, which has ``compute(level) -> xarray.Dataset``,
    ``draw(dataset) -> matplotlib Figure`` and ``check(dataset) -> list of Check``: what the figure claims, asked of
    its data, with at least one wrong theory as a control; and `write_extras` where there are files besides. It is
    imported only when the figure is drawn. Numbers in a caption are asserted on the data by the tests. Figures
    `from_runs` of transformers have ``compute(level, runs)``.
    """

    id: str
    title: str
    caption: str
    from_runs: bool = False

    @property
    def name(self) -> str:
        """Name of the module and of the files: figure_3."""
        return f"figure_{self.id}"


_ENTRIES = (
    FigureEntry(
        "2",
        "The four stages of attention",
        "Attention of two classes of one query in the mean field, K = 2, V = 100, eta_Y = eta_Z = 1; tokens "
        "a-c are distinct of class 0, d-f of class 1, * is common and starts with 0.6. 1: start. 2: the "
        "common token has lost half of what it loses. 3: the dominant token passes it. 4: t = 1e5, little "
        "moves. The dominant token's lead over the next distinct one rises from 1.67 to 1.79 and comes back "
        "to 1.75: at eta_Z = eta_Y the mean field remembers old attention, which Eq. (10) does not.",
    ),
    FigureEntry(
        "3",
        "Growth factor of the dominant token through the phase transition",
        "Upper bound exp(2B) of the dominant token's growth factor, K = 10, V = 1000, eta_Z = 0.5. Lines: "
        "closed forms; circles: Eq. (13) integrated numerically; dotted: t0 = 2(1+omega_1) K ln V/eta_Y. "
        "Left, as printed: larger eta_Y is ahead before the transition, behind after it, and the "
        "transition comes earlier. Right, the form consistent with Eqs. (98)-(100): same order and times, "
        "an exponent about K times smaller. The paper gives no rho0; chosen is rho0 = K^(1/4) = 1.778, so "
        "C0 = 1, the only value at which the printed B starts at 0. Scale: at t = 700 the largest curve "
        "reaches 45.2 as printed and 1.46 in the consistent form (1.63 at the smallest possible rho0 = "
        "1), where the printed figure's axis reaches 600. For any rho0 >= 1, even the printed form grows "
        "by at most a factor 143 from its own start.",
    ),
    FigureEntry(
        "4",
        "Attention on Syn-Small, SGD and mean field",
        "Attention c_n(l) on Syn-Small, both classes, eta_Y = 1 (above) and 10 (below), eta_Z = 1: SGD with "
        "momentum 0.9, batch 128, T = 128, zero start; the mean field at the time at which a constant "
        "gradient would have arrived; and what SGD differs by from it and from descent with momentum on the "
        "expectation (T infinite). Grey: not in this class. At eta_Y = 1 the mean field lags at iteration 48, "
        "for momentum builds up twice, in the decoder and then in attention; descent with momentum does not. "
        "At eta_Y = 10 the errors of the clock and of infinite T nearly cancel.",
    ),
    FigureEntry(
        "5",
        "Attention on Syn-Small with Adam",
        "Attention of class 0 on Syn-Small with Adam at eta_Y = eta_Z = 0.1, 0.5 and 1, batch 128, T = 128, "
        "zero start, mean over seeds. Common tokens lose at every rate, and a larger rate is sparser at "
        "iteration 48. Which distinct token wins depends on the rate: Adam divides by the size of the "
        "gradient, so that rare tokens move as fast as frequent ones, and the most frequent one leads at rate "
        "1 only.",
    ),
    FigureEntry(
        "6",
        "Entropy of attention on Syn-Medium against the ratio of the rates",
        "Entropy of attention over a class's distinct tokens, renormalised, mean over classes, after 100 "
        "steps of SGD (momentum 0.9, batch 128, T = 128, start uniform in +-1/sqrt(V)) on Syn-Medium. Lines "
        "and bands: ours; markers with bars: published, 10 seeds. For three or more queries it is smallest at "
        "eta_Y/eta_Z = 2; for one query it rises with the ratio.",
    ),
    FigureEntry(
        "7",
        "Attention of transformers on text during training",
        "Attention of the lowest layer on one validation sequence, learning rate 5; above each map the iteration and "
        "the mean attention entropy on the validation text. Below, over the whole run: that entropy, and the share of "
        "attention that moves elsewhere per 100 iterations. Dashed: the same training on the same text with its words "
        "exchanged at random, where nothing tells the next word.",
        from_runs=True,
    ),
    FigureEntry(
        "8",
        "Growth of the decoder: whole steps against the continuous form",
        "Growth of the decoder after s visits of a class: h* in whole SGD steps (dashed, Eq. 33) and its "
        "continuous form h (lines, Eq. 45). At whole visits h <= h* <= h + 2 eta_Y/V (Lemma 7); the gap "
        "is largest in the transition, 9 to 11 % of that bound.",
    ),
    FigureEntry(
        "9",
        "Growth exponent at a fixed ratio of the learning rates",
        "Growth exponent B(t) of Eq. (129), K = 1, C0 = 1; dotted: t0; dots: B(t0), equal for all eta_Z "
        "at a fixed ratio. Larger eta_Z: larger B. The ratio nu is read as eta_Y/eta_Z: then every t0 "
        "lies inside the printed axis; as eta_Z/eta_Y, the other reading, nu = 10 would put them at t = "
        "16 to 258 on an axis that ends at 5. With C0 = 1 the printed form starts at 0 and equals the one "
        "integrated from 0. The form consistent with Eqs. (98)-(100) has the factor K-1 and is 0 "
        "throughout: a single class has no token in common with another.",
    ),
    FigureEntry(
        "10",
        "Attention entropy of transformers on text against the learning rate",
        "Mean attention entropy of 1-layer transformers on the validation text after training; bars: standard "
        "deviation over seeds. Dashed: trained on the same text with its words exchanged at random; dotted: uniform "
        "attention.",
        from_runs=True,
    ),
    FigureEntry(
        "11",
        "Recall of distinct tokens by the ratio of the rates",
        "Share of a query's distinct tokens (those of its classes) whose softmax(z_m) over all V ids exceeds "
        "a threshold near 1/V, mean over queries, after the runs of Figure 6. Rows: numbers of queries and "
        "next tokens; columns: eta_Z; curves: eta_Y/eta_Z. The larger the ratio, the steeper the curve: "
        "attention is less decided.",
    ),
    FigureEntry(
        "12",
        "Recall of distinct tokens by the rate of attention",
        "As Figure 11 with columns and curves exchanged: columns eta_Y/eta_Z, curves eta_Z. The larger eta_Z, "
        "the fewer distinct tokens are above the lowest threshold: attention concentrates on some of them.",
    ),
    FigureEntry(
        "attention",
        "Attention on Syn-Small over time, mean field",
        "Attention c_n(l) of both classes of Syn-Small in the mean field (infinite sequences, no noise), "
        "eta_Y = 1 (left) and 10 (right), eta_Z = 1. Time counts batch-size-1 steps. The paper's SGD has "
        "momentum 0.9, so t is about 10 times its iterations late; the upper axis counts iterations with "
        "the build-up of the velocity at a constant gradient (iteration 10 at t = 41, 48 at t = 391). "
        "Common tokens fall and the dominant distinct token rises. eta_Y = 10 moves first (dominant token "
        "0.074 against 0.069 at t = 9), eta_Y = 1 overtakes near t = 16 and goes further: at iteration 48 "
        "the entropy is 2.87 nats against 2.89 (start 2.90), so the larger eta_Y/eta_Z leaves attention "
        "denser.",
    ),
    FigureEntry(
        "growth",
        "Growth of the dominant token: printed, consistent, Eq. (10), mean field, SGD",
        "Growth of class 0's dominant token, (1/2) ln chi, and the growth exponents B that bound it: K = 5, V "
        "= 1000, one common token of probability 0.3, eta_Y = eta_Z = 0.1; dotted: t0. The printed B (129) "
        "does not start at 0 (F1) and is about K times too large (F3). Eq. (10) stays below the consistent "
        "form. The mean field grows less than a tenth as much (F4), and SGD (batch 32, T infinite) follows "
        "it.",
    ),
    FigureEntry(
        "transition",
        "Speed control, common logit and growth exponent through the phase transition",
        "K = 10, V = 1000, eta_Y = 1, eta_Z = 0.5, rho0 = K^(1/4), so C0 = 1. Lines: closed forms; circles: "
        "gamma from the logits of the modified flow, z_c and B from Eq. (13), consistent form, integrated. "
        "Dotted: the peak of gamma, t0' = K ln V/eta_Y and t0 = 2(1+omega_1) K ln V/eta_Y. Scanning ends and "
        "snapping begins between them: the common logit goes on falling, but only as ln ln t. The printed B "
        "has the same course and K times the size.",
    ),
    FigureEntry(
        "ladder",
        "What every approximation costs, from SGD to the closed form",
        "Largest difference of each rung of the ladder from the next finer one, over how far the observable "
        "moves in the run: K = 5, V = 1000, one common token of probability 0.05, eta_Y = eta_Z = 0.1, batch "
        "64; finite T: 127 contextual tokens. Thin where the noise of the seeds explains it; dotted: the "
        "tolerance 0.05. What breaks is the step from the mean field to Eq. (10) (F4), and the length of the "
        "sequences; finite steps and noise do not matter here.",
    ),
    FigureEntry(
        "orders",
        "Fitted orders of the approximations",
        "Gaps between neighbouring rungs against their small parameter (circles, with standard errors where "
        "they are random), and the order that theory gives (line through the smallest gap). In the titles: "
        "the fitted order without what the next term, found in the same data, adds to it.",
    ),
    FigureEntry(
        "maps",
        "Where the statements hold that do not hold everywhere",
        "Measured violation of statements that hold under conditions, over the two quantities that matter: "
        "Theorem 2(a), the slowness of attention that it needs, the modified decoder's common logit against "
        "the mean field's (two cuts), and the clock of momentum. Dark: holds; dashed: the measured boundary; "
        "dotted: the printed condition; solid: a fitted or corrected one.",
    ),
    FigureEntry(
        "phase",
        "Phase diagrams of training",
        "Above, mean field over the rates: final entropy (K = 5, V = 1000, a common token of probability 0.5, t = "
        "1000) changes after the transition, most of it before (eta_Z/eta_Y)(V h)^2 reaches 4.5; only beyond it do "
        "distinct tokens fall (random classes, K = 3, V = 100, t = 1e4; F10). Second row, left: the measured "
        "transition lies on t*, within 2 % of K/V, not on t0' or t0. Then the largest gap of the ladder. With slow "
        "attention it is max(V rho, 1/(1 + V rho)), whatever K: where V rho is large Eq. (10) breaks (F4), where it "
        "is small the leading beta, so that no V, rho or K keeps every rung; the printed condition rho < 1/(K(K-1)) "
        "does not show. Over the rates it leaves that law, upwards, beyond the same 4.5: the decoder remembers old "
        "attention. Below, K = 2, V = 100, t = 1e4: attention still moving at the end, snapped (the last decade of "
        "t moves it at less than a tenth of its fastest, per unit of ln t), or with more than half on one distinct "
        "token: a winner takes all under Eq. (10) only. Under Eq. (10) attention has snapped only above the line "
        "from which most of its way is done by t0, by a factor of 7 or more in eta_Z; in the mean field only where "
        "(eta_Z/eta_Y)(V h)^2 is above 4.5.",
    ),
    FigureEntry(
        "animation",
        "Attention on Syn-Small as it moves",
        "Attention of class 0 in the mean field, eta_Y = 1 and 10, eta_Z = 1, at times evenly spaced on a "
        "logarithmic axis; as a strip for print, a GIF and a page with a slider. Per step attention freezes; "
        "on a logarithmic clock it keeps moving, at eta_Y = 10 a third as fast at t = 1e5 as at its fastest.",
    ),
)
FIGURES: dict[str, FigureEntry] = {entry.id: entry for entry in _ENTRIES}
