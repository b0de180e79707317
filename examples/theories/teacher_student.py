"""Online learning of a teacher by a student with erf units (Saad and Solla 1995, Phys. Rev. E 52, 4225).

Units g(x) = erf(x / sqrt 2). Student J (K, N), teacher B (K, N) with orthonormal rows, input xi ~ N(0, 1_N), fields
x = J xi and y = B xi, (K,) each; loss (1/2) (sum_j g(x_j) - sum_n g(y_n))^2. One step of SGD on one fresh sample:
    J_i <- J_i + (eta / N) delta_i xi,   delta_i = g'(x_i) (sum_n g(y_n) - sum_j g(x_j)).
CLOCK: t = (eta / N) * (batch-size-1 steps), that is eta times the paper's alpha = steps / N.

Flow. As N -> infinity, |xi|^2 / N -> 1, and the overlaps Q = J J^T, R = J B^T (K, K) follow
    dR_in/dt = <delta_i y_n>,   dQ_ik/dt = <delta_i x_k> + <delta_k x_i> + eta <delta_i delta_k>;
eta = 0 is the gradient flow of the mean loss. State: Q, then R, row by row. Averages are over the fields h = (x, y),
Gaussian with covariance C = [[Q, R], [R^T, 1]]. The factor g'(h_i) = sqrt(2/pi) exp(-h_i^2 / 2) leaves, up to the number
sqrt(2/pi) / sqrt(1 + C_ii), a Gaussian with covariance C' = C - C_.i C_i. / (1 + C_ii) ("tilted" by i). With
<g(h_a) g(h_b)> = (2/pi) arcsin(C_ab / sqrt((1 + C_aa)(1 + C_bb))) and <h_b g(h_a)> = sqrt(2/pi) C_ab / sqrt(1 + C_aa):
    <g'(h_i) h_b g(h_a)> = (2/pi) C'_ab / sqrt((1 + C_ii)(1 + C'_aa)),
    <g'(h_i) g'(h_k) g(h_a) g(h_b)> = (4/pi^2) asin(C''_ab / sqrt((1 + C''_aa)(1 + C''_bb))) / sqrt((1 + C_ii)(1 + C'_kk)),
C'' tilted by i, then by k. The test compares the rate with samples and with moments in another form.

Closed forms, derived here; the test repeats them from the flow's Jacobian:
- Plateau, eta = 0: all R_in = 1/sqrt(K(2K-1)), all Q_ik = 1/(2K-1), loss (K/pi)(pi/6 - K asin(1/(2K))). It has an
  eigenvalue 0 (student parts outside the teacher, all different): such a start comes near as a power of t.
- Escape from it: a change r of R with zero row and column sums leaves Q and grows as e^(lambda t) (`escape_rate`); at the
  plateau two of three terms cancel, and lambda = (2/pi) K / ((2K+1)^(3/2) (2K-1)^(1/2)).
- End of learning: the covariance D = Q - R - R^T + 1 of x - y is small, and x - y independent of y to leading order:
  dD_ik/dt = -(H D + D H)_ik + eta sum_ab D_ab <g'_i g'_k g'_a g'_b>, H_ik = <g'_i g'_k>, all at y. With D = p on the
  diagonal and c off it: a 2 x 2 matrix of m_k = <g'^k> = (2/pi)^(k/2) / sqrt(1+k). Learning diverges where it has a
  positive eigenvalue, eta > eta_c: pi sqrt(5/3) = 4.056 for K = 1, 2.307 for K = 2.
"""

import math
from itertools import product

import numba
import numpy as np
import xarray
from scipy.linalg import expm
from scipy.special import erf

import snapdyn as sd


@numba.njit
def tilted(C, i):
    """Covariance (n, n) of fields weighted by exp(-h_i^2 / 2)."""
    return C - np.outer(C[:, i], C[i]) / (1 + C[i, i])


@numba.njit
def asin_sum(C, sign):
    """Mean of (sum_a sign_a g(h_a))^2 over pi/2 * Gaussian fields of covariance C (n, n)."""
    scale = np.sqrt(1 + np.diag(C))
    return (np.arcsin(C / np.outer(scale, scale)) * np.outer(sign, sign)).sum()


@numba.njit
def rate(t, state, out, eta):
    """d(Q, R)/dt of the flow."""
    K = int(math.sqrt(state.size // 2) + 0.5)
    C, Q_rate, R_rate = np.eye(2 * K), out[: K * K].reshape(K, K), out[K * K :].reshape(K, K)
    C[:K, :K], C[:K, K:] = state[: K * K].reshape(K, K), state[K * K :].reshape(K, K)
    C[K:, :K] = C[:K, K:].T
    sign = np.ones(2 * K)
    sign[:K] = -1.0
    Q_rate[:] = 0.0
    for i in range(K):
        once, drift = tilted(C, i), np.zeros(2 * K)  # <delta_i h>
        for a in range(2 * K):
            drift += sign[a] * 2 / math.pi * once[a] / math.sqrt((1 + C[i, i]) * (1 + once[a, a]))
        R_rate[i] = drift[K:]
        Q_rate[i] += drift[:K]
        Q_rate[:, i] += drift[:K]
        for k in range(K):
            norm = math.pi**2 / 4 * math.sqrt((1 + C[i, i]) * (1 + once[k, k]))
            Q_rate[i, k] += eta * asin_sum(tilted(once, k), sign) / norm


def loss(state):
    """Mean loss of states (..., 2 K^2): (1/pi) sum of signed arcsines."""
    K = math.isqrt(np.shape(state)[-1] // 2)
    sign, states = np.repeat([-1.0, 1.0], K), np.reshape(state, (-1, 2, K, K))
    sums = [asin_sum(np.block([[Q, R], [R.T, np.eye(K)]]), sign) / math.pi for Q, R in states]
    return np.reshape(sums, np.shape(state)[:-1])


def packed(in_teacher, outside=None):
    """State of a student with these components (K, K) along the teacher and (K, any) outside."""
    Q = in_teacher @ in_teacher.T + (0.0 if outside is None else outside @ outside.T)
    return np.concatenate([Q.ravel(), in_teacher.ravel()])


def student(state, eta=0.0):
    """System that starts at a state (2 K^2,)."""
    measures = {"mean_loss": lambda state, eta: loss(state)}
    return sd.System.from_function("TeacherStudent", rate, state, {"eta": eta}, observables=measures)


def plateau(K):
    """Q, R and the loss of the symmetric plateau."""
    return 1 / (2 * K - 1), 1 / math.sqrt(K * (2 * K - 1)), K / math.pi * (math.pi / 6 - K * math.asin(1 / (2 * K)))


def escape_rate(K, Q, R):
    """Rate lambda at which the symmetry breaks where all Q_ik = Q, R_in = R."""
    D = 2 * (1 + Q) - R**2
    return 2 / math.pi * (K / (1 + Q) * (Q / math.sqrt(1 + 2 * Q) - R / math.sqrt(D)) + R / D**1.5)


def end_matrix(K, eta):
    """2 x 2 rate of (p, c) at the end of learning."""
    m1, m2, m3, m4 = ((2 / math.pi) ** (k / 2) / math.sqrt(1 + k) for k in range(1, 5))
    h = m1**2  # <g'_i g'_k>
    G = [
        [m4 + (K - 1) * m2**2, 2 * (K - 1) * m3 * m1 + (K - 1) * (K - 2) * m2 * h],
        [2 * m3 * m1 + (K - 2) * m2 * h, 2 * m2**2 + 4 * (K - 2) * m2 * h + (K - 2) * (K - 3) * h**2],
    ]
    matrix = eta * np.array(G) - 2 * np.array([[m2, (K - 1) * h], [h, m2 + (K - 2) * h]])
    return matrix if K > 1 else matrix[:1, :1]


def critical_eta(K):
    """Smallest learning rate with a zero eigenvalue at the end of learning."""
    free = end_matrix(K, 0.0)
    return float(np.min(1 / np.linalg.eigvals(np.linalg.solve(-free, end_matrix(K, 1.0) - free)).real))


def train(N, eta, times, parts, seeds, rng):
    """SGD of weights in numpy: states (times, seeds, 2 K^2) at t = (eta / N) steps; `parts` (K, m): J at the start."""
    K, m = parts.shape
    J = np.zeros((seeds, K, N))
    J[:, :, :m] = parts  # the teacher is the first K unit vectors: the inputs prefer no direction
    record, states = set(np.rint(np.asarray(times) * N / eta).astype(int)), []
    for step in range(max(record) + 1):
        if step in record:
            Q = np.einsum("sin,skn->sik", J, J)
            states.append(np.concatenate([Q.reshape(seeds, -1), J[:, :, :K].reshape(seeds, -1)], axis=1))
        xi = rng.standard_normal((seeds, N))
        x = np.einsum("sin,sn->si", J, xi)
        error = erf(xi[:, :K] / math.sqrt(2)).sum(1) - erf(x / math.sqrt(2)).sum(1)
        delta = math.sqrt(2 / math.pi) * np.exp(-(x**2) / 2) * error[:, None]
        J += eta / N * delta[..., None] * xi[:, None, :]
    return np.array(states)


PARTS = np.array([[0.4, 0.1, 0.5, 0.0], [0.1, 0.3, 0.0, 0.5]])  # two students: along the teacher, and outside
START = packed(PARTS[:, :2], PARTS[:, 2:])
PRECISE = {"rtol": 1e-12, "atol": 1e-15}
OWN = {"source": "Saad, Solla 1995; own derivation"}


@sd.claim("saad-solla-plateau", title="Plateau", statement="Equal students stop at the plateau's closed form.", **OWN)
def at_plateau(evidence):
    for K in (2, 3):
        run = sd.integrate(student(packed(np.full((K, K), 0.1), np.full((K, 1), 0.5))), [0.0, 200.0], **PRECISE)
        linear = loss(packed(np.full((K, K), 1 / K)))  # linear students end at the mean of the teacher's rows
        error, wrong = np.abs(loss(run.state)[1] - [plateau(K)[2], linear])
        evidence.holds(f"K = {K}: loss at t = 200 minus closed form", "flow", error, at_most=1e-9)
        evidence.control(f"wrong theory: K = {K}, linear units", "flow", wrong, at_most=1e-9)


@sd.claim("saad-solla-escape", title="Symmetry breaking", statement="The symmetry breaks as e^(lambda t).", **OWN)
def escape(evidence):
    for K in (2, 3):
        J = np.full((K, K), plateau(K)[1]) + 1e-5 * (np.eye(K) - 1 / K)
        run = sd.integrate(student(packed(J)), [0.0, 30.0], **PRECISE)
        grown = math.log((run.state[1, K * K] - run.state[1, K * K + 1]) / 1e-5) / 30
        error, wrong = (abs(grown / escape_rate(K, *each) - 1) for each in (plateau(K)[:2], (1 / K, 1 / K)))
        evidence.holds(f"K = {K}: rate over lambda, minus 1", "flow", error, at_most=1e-4)
        evidence.control(f"wrong theory: K = {K}, lambda at the plateau of linear units", "flow", wrong, at_most=1e-4)


@sd.claim("saad-solla-end", title="Largest rate", statement="Learning ends, or diverges, as the 2 x 2 matrix.", **OWN)
def end(evidence):
    for K, share in product((1, 2, 3), (0.9, 1.1)):
        eta, what = share * critical_eta(K), f"K = {K}, eta = {share} eta_c: D_11 at t = 40, relative"
        run = sd.integrate(student(packed(np.eye(K), 1e-3 * np.eye(K)), eta), [0.0, 40.0], **PRECISE)
        found = (run.state[1, 0] - 2 * run.state[1, K * K] + 1) / 1e-6
        error, wrong = (abs(found / expm(40.0 * end_matrix(K, each))[0, 0] - 1) for each in (eta, 0.0))
        evidence.holds(what, "flow", error, at_most=1e-2)
        evidence.control(f"wrong theory: no noise term, {what}", "flow", wrong, at_most=1e-2)


def distances(level="quick"):
    """Of SGD from the flow, and from the flow without noise term: N (n,), squared distances (2, n, seeds) at t <= 3."""
    N, times, seeds = np.array([50, 100, 200, 400]), [1.0, 2.0, 3.0], {"quick": 60, "full": 240}[level]
    flows = np.array([sd.integrate(student(START, eta), times).state for eta in (1.0, 0.0)])
    runs = [train(each, 1.0, times, PARTS, seeds, np.random.default_rng(each)) for each in N]
    return N, np.array([[((run - flow[:, None]) ** 2).sum(2).mean(0) for run in runs] for flow in flows])


@sd.claim("saad-solla-finite-N", title="Finite N", statement="SGD is within O(N^(-1/2)) of the flow.", **OWN)
def finite(evidence):
    N, squares = distances(evidence.level)
    weights = np.log(N / np.exp(np.log(N).mean()))
    weights /= weights @ weights  # slope = weights @ log(distance)
    slopes = weights @ (0.5 * np.log(squares.mean(2))).T
    errors = np.sqrt((weights * 0.5 * squares.std(2) / squares.mean(2)) ** 2 @ np.ones(4) / squares.shape[2])
    (error, wrong), (slope, other) = np.abs(slopes + 0.5) / errors, slopes
    evidence.holds(f"slope {slope:.3f} minus -1/2, standard errors", "SGD", error, at_most=3.5)
    evidence.control(f"wrong theory: no noise term, slope {other:.3f}", "SGD", wrong, at_most=3.5)


def curves(level):
    """Loss of the flow (time) and of SGD (N, time) through the plateau, eta = 1."""
    J, t = np.hstack([np.full((2, 2), 0.1) + 0.02 * np.eye(2), 0.5 * np.eye(2)]), np.linspace(0.0, 150.0, 61)
    flow = sd.integrate(student(packed(J[:, :2], J[:, 2:]), 1.0), t)
    sgd = np.array([loss(train(N, 1.0, t, J, 1, np.random.default_rng(2))[:, 0]) for N in (50, 200)])
    found = {"flow": ("time", loss(flow.state)), "sgd": (("N", "time"), sgd), "plateau": plateau(2)[2]}
    return xarray.Dataset(found, {"time": t, "N": [50, 200]})


def draw(data):
    """Draw theory as lines, SGD as markers."""
    figure = sd.figures.style.new_figure(3.4, 2.6)
    axes = figure.subplots()
    for marker, N in zip("o^", data.N.values, strict=True):
        axes.plot(data.time, data.sgd.sel(N=N), marker, markersize=3, markerfacecolor="white", label=f"SGD, N = {N}")
    axes.plot(data.time, data.flow, "k-", label="flow, $\\eta = 1$")
    axes.axhline(float(data.plateau), color="0.5", linestyle=":", label="plateau, $\\eta = 0$")
    axes.set(yscale="log", xlabel="$t = \\eta$ steps / N", ylabel="mean loss")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def check(data):
    """SGD at N = 200 is nearer to the flow than at N = 50."""
    near = np.abs(np.log(data.sgd / data.flow)).mean("time").values
    last = float(data.flow[-1] / data.plateau)
    return [
        sd.Check("gap in log loss, N = 200 over N = 50", "SGD", near[1] / near[0], 1.0),
        sd.Check("wrong theory: no escape, loss over the plateau's", "flow", last, 0.9, ">=", "control"),
    ]


CAPTION = "Two students of two erf units leave the plateau; SGD nears the flow as N grows. One seed each."
sd.register(student(START, 1.0))
sd.register(sd.FigureEntry("teacher-student", "Online learning of a teacher", CAPTION, curves, draw, check))
