"""Findings: where recomputation and print disagree, one sentence each."""

FINDINGS: dict[str, str] = {
    "F1": "The printed B_n of (14), (124) and (129)-(131) is not 0 at t = 0: the integral from 0 gives (1/4) ln(1 + "
    "4 Gamma/C0), which lacks (1/4) ln C0; they agree only for C0 = 1.",
    "F2": "Remark 1 needs K = V, and a factor less: there w_n = (V-1) h(t/K) zeta_n with h at rate (1-rho) eta_Y and "
    "no prefactor, and beta/iota = 1/(V-1).",
    "F3": "Theorem 4's premise (13) contradicts (98)-(100): conservation shares the common token's fall among the K "
    "classes, so the printed growth exponent is K^2/(K-1) times too large while it is small, and K + 1/m times in the "
    "limit, m the number of most frequent distinct tokens (leading beta).",
    "F4": "The modified decoder is a small change in norm but not for attention: its beta is of the order of the "
    "overlap, that of the original flow of order 1/(V-1).",
    "F5": "(88) has a wrong sign: + q0 (1 + sum E') must be - q0 (1 - sum E'); with the right one xi_n > 0 for "
    "|lambda_1| <= 1/sqrt(K-2), without the lower bound of Assumption 2.",
    "F6": "Assumption 2 needs V > 36 K^2 (|lambda_1|/min|lambda|)^2: at least 36 K^2 for any classes, so that V = 10 "
    "K^2 never does, and 36 K^2 (K-1)^2 with equal overlaps, far more than V >> K^2.",
    "F7": "Eq. (10) is printed without p_n, on a clock that counts rounds, while gamma and Theorem 4 use t/K.",
    "F8": "Theorem 1(b) and Section 6 print ln(eta_Y t/K) where Lemma 9 has ln(V eta_Y t/K).",
    "F9": "(112) lacks a factor 2: dr/dt = 2 r(0) chi dz/dt.",
    "F10": "Theorem 2(a) can fail in the full mean field: when attention moves, Y remembers old attention, and late "
    "logits of distinct tokens can fall.",
    "F11": "Remark 2's late gap h* - h is not 2 eta_Y s0/(V s): it is [ln(eta_Y s)/2 + eta_Y (1/24 + 1/(8V))]/(V s).",
    "F12": "Figure 3's axis reaches 600, but from its own start exp(2 B) by (14) grows at most 143 times over all "
    "rho0 >= 1, and the consistent form at most 1.63 times.",
    "F13": "The lower bound in (93) needs 1 + |lambda_1| where 1 - |lambda_1| is printed; with it the step to 1/2 and "
    "xi_n > 0 stand.",
    "F14": "The condition of (132) falls with nu and lacks K and C0: with nu = eta_Y/eta_Z, as defined before (130), "
    "it is t >> (K/(V eta_Y)) exp(sqrt(nu C0/(2K))); the printed one is that of nu = eta_Z/eta_Y, as Fig. 9's "
    "caption has it, against its panels.",
    "F15": "The proof of Lemma 7(b) leaves every gap epsilon <= ln(2)/V open, whatever eta_Y: its s0' asks for "
    "h(s+1) - h(s) <= epsilon - ln(2)/V, which is at most 0 there. It is empty for eta_Y <= ln(2)/2, where "
    "epsilon <= 2 eta_Y/V allows no larger gap; epsilon/2 on the right repairs it.",
    "F16": "The second inequality of (58) is not true for every N and delta: it needs N ln(2/delta) > 6 + 4 sqrt(2) = "
    "11.7, which N >= 17 ensures.",
    "F17": "The text after (30) says that the added -F E' e_n lowers the learning rate; by (40)-(43) it raises it, "
    "from (1-rho) eta_Y to eta_Y.",
    "F18": "Appendix D.1 defines E' as (I+E)^{-1} - I; (28), Lemma 14 and all that follows need I - (I+E)^{-1}.",
}
