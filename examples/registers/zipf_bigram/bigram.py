r"""The linear bigram model with Zipf's law: its descent in closed form, by simulation, and numbers of steps.

Model. Token i comes with the probability pi_i, and j follows with the probability p_ij. W in R^{d x d} starts at 0
and predicts the row W_i; the loss is the mean of |W_i - e_j|^2/2. Frequencies are a power law, pi_i = i^(-alpha)/H
with H = sum_i i^(-alpha), and each row of p is a permutation of pi. Errors are relative: (loss - least loss)/(the
same at the start). The least loss is at W = p, and loss - least loss = sum_i pi_i |W_i - p_i|^2/2.

Gradient descent. The gradient of row i is pi_i (W_i - p_i), so that W_i - p_i = -(1 - eta pi_i)^t p_i. All rows
have the same |p_i|^2: with eta = share/pi_1 the relative error is
    r(t) = sum_i pi_i (1 - share i^(-alpha))^(2 t).
At alpha = 1, share = 1 and large d, t, the sum is an integral over x = i/d: r = E_1(s)/H, s = 2 t/d, with the
exponential integral E_1 and H = ln d + 0.5772. So r = epsilon after t = (d/2) s steps with E_1(s) = epsilon H. From
E_1' = -e^(-s)/s and dH/d(ln d) = 1, d(ln s)/d(ln d) = -epsilon e^s: the steps grow as a power of d with the local
exponent
    q = 1 - epsilon e^s.
As d grows at fixed epsilon, s -> 0 and q -> 1 - epsilon. For alpha > 1 the tokens beyond d have the share tau =
sum_{i>d} i^(-alpha)/H of the loss. Where tau is much smaller than epsilon, more tokens do not change the number of
steps.

Sign descent. W_i <- W_i - eta sign(W_i - p_i), the same in every row. An entry p moves up by eta a step until the
first k with k eta >= p, k = ceil(p/eta), and from then on it is in turn at k eta and (k - 1) eta. So after T steps
its error is p - T eta for T < k; k eta - p for even T - k; p - (k - 1) eta for odd T - k. All rows add up to the
relative error sum_j error_j^2/sum_j p_j^2. Entries p < eta, most of them at large d, are at 0 after an even number
of steps and at eta after an odd one: then they cost up to d eta^2, but only sum p^2 after an even number. At alpha
= 1, let eta = y/H and stop the largest entry at (1 - x)/H. With e = epsilon pi^2/6 = epsilon H^2 sum p^2, an odd T
needs x^2 + d y^2 = e, and T = (1 - x)/y is least at x = e: T = sqrt(d (1 - e)/e), the square root of d. An even T
does not grow with d.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import exp1

SOURCE = "arXiv:2505.19227 (Kunstner, Bach 2025)"


def law(alpha, d):
    """Frequencies i^(-alpha)/H, (d,)."""
    weights = np.arange(1, int(d) + 1) ** -float(alpha)
    return weights / weights.sum()


def descent_error(p, t, share=1.0, power=2.0):
    """Relative error r(t) of gradient descent with the step share/pi_1; t may be an array."""
    factors = np.log(np.maximum(np.abs(1 - share * p / p[0]), 1e-300))
    return np.exp(power * np.multiply.outer(t, factors)) @ p


def descent_steps(p, epsilon):
    """Steps t, a real number, after which gradient descent with the step 1/pi_1 has the relative error epsilon."""
    high = 1.0
    while descent_error(p, high) > epsilon:
        high *= 4.0
    return high * brentq(lambda share: descent_error(p, high * share) - epsilon, 0.0, 1.0, rtol=1e-10)


def scaled_steps(d, epsilon):
    """The root s = 2 t/d of E_1(s) = epsilon H at alpha = 1."""
    H = np.sum(1 / np.arange(1, int(d) + 1))
    return np.exp(brentq(lambda u: exp1(np.exp(u)) - epsilon * H, -60.0, 5.0))


def sign_errors(p, T, eta):
    """|error| of each entry after T steps of sign descent with the step eta, from 0; shapes broadcast."""
    k = np.ceil(p / eta)
    return np.where(k > T, p - T * eta, np.where((T - k) % 2 == 0, k * eta - p, p - (k - 1) * eta))


def sign_error(p, T, eta, even):
    """Relative error of sign descent (steps, 1): after the even one of T and T + 1 steps, or the larger one of both."""
    head, tail = np.split(p, [np.count_nonzero(p >= np.min(eta))])  # p falls; all of the tail is below each eta
    total, squares = tail.sum(), np.sum(tail**2)
    both = []
    for each in (T, T + 1):
        of_tail = squares if each % 2 == 0 else tail.size * eta[:, 0] ** 2 - 2 * eta[:, 0] * total + squares
        both.append((np.sum(sign_errors(head, each, eta) ** 2, axis=-1) + of_tail) / np.sum(p**2))
    return both[int(T % 2)] if even else np.maximum(*both)


def sign_steps(p, epsilon, even=False):
    """Least T, in a grid of 3 %, at which a constant step of sign descent reaches the relative error epsilon."""
    shares = np.linspace(0.3, 1.0, 22)[:, None]  # of p_1, that T steps cover
    T = 1
    while sign_error(p, T, shares * p[0] / T, even).min() > epsilon:
        T = max(T + 1, round(1.03 * T))
    return T


def simulated(alpha, d, steps, share, sign, seed):
    """Relative error of descent on the matrix W: the loss summed over pairs of tokens, minus its least value."""
    pi = law(alpha, d)
    rng = np.random.default_rng(int(seed))
    p = np.array([rng.permutation(pi) for _ in pi])
    pairs = pi[:, None] * p

    def loss(W):
        squares = (W**2).sum(axis=1)[:, None] - 2 * W + 1  # |W_i - e_j|^2
        return 0.5 * np.sum(pairs * squares)

    W, eta = np.zeros_like(p), share * pi[0] if sign else share / pi[0]
    first, least = loss(W), loss(p)
    for _ in range(int(steps)):
        gradient = pairs.sum(axis=1)[:, None] * W - pairs
        W -= eta * (np.sign(gradient) if sign else gradient)
    return (loss(W) - least) / (first - least)
