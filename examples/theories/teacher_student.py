"""Online learning of a teacher by a student with erf units (Saad and Solla 1995, Phys. Rev. E 52, 4225).

Units g(x) = erf(x / sqrt 2). Student J (K, N), teacher B (K, N) with orthonormal rows, input xi ~ N(0, 1_N), fields
x = J xi and y = B xi, (K,) each; loss (1/2) (sum_j g(x_j) - sum_n g(y_n))^2. One step of SGD on one fresh sample:
    J_i <- J_i + (eta / N) delta_i xi,   delta_i = g'(x_i) (sum_n g(y_n) - sum_j g(x_j)).
CLOCK: t = (eta / N) * (batch-size-1 steps), that is eta times the paper's alpha = steps / N.
Flow. As N -> infinity, |xi|^2 / N -> 1, and the overlaps Q = J J^T, R = J B^T (K, K) follow
    dR_in/dt = <delta_i y_n>,   dQ_ik/dt = <delta_i x_k> + <delta_k x_i> + eta <delta_i delta_k>;
eta = 0 is the gradient flow of the mean loss. State: Q, then R, row by row. The fields h = (x, y) are Gaussian with
covariance C = [[Q, R], [R^T, 1]]. The factor g'(h_i) = sqrt(2/pi) exp(-h_i^2 / 2) leaves sqrt(2/pi) / sqrt(1 + C_ii)
times a Gaussian average with C' = C - C_.i C_i. / (1 + C_ii) ("tilted" by i). With the means of g(h_a) g(h_b),
(2/pi) arcsin c_ab, c_ab = C_ab / sqrt((1 + C_aa)(1 + C_bb)), and of h_b g(h_a), sqrt(2/pi) C_ab / sqrt(1 + C_aa):
    <g'(h_i) h_b g(h_a)> = (2/pi) C'_ab / sqrt((1 + C_ii)(1 + C'_aa)),   and, with C'' tilted by i, then by k,
    <g'(h_i) g'(h_k) g(h_a) g(h_b)> = (4/pi^2) arcsin(c''_ab) / sqrt((1 + C_ii)(1 + C'_kk)).
Closed forms, derived here; the test repeats them from the flow's Jacobian:
- Plateau, eta = 0: all R_in = 1/sqrt(K(2K-1)), all Q_ik = 1/(2K-1), loss (K/pi)(pi/6 - K asin(1/(2K))). It has an
  eigenvalue 0 (different student parts outside the teacher): such a start comes near as a power of t.
- Escape: a change of R with zero row and column sums leaves Q and grows as e^(lambda t) (`escape_rate`); at the
  plateau two of its three terms cancel: lambda = (2/pi) K / ((2K+1)^(3/2) (2K-1)^(1/2)).
- End: the covariance D = Q - R - R^T + 1 of x - y is small, x - y independent of y to leading order, all means at y:
  dD_ik/dt = -(H D + D H)_ik + eta sum_ab D_ab <g'_i g'_k g'_a g'_b>, H_ik = <g'_i g'_k>, for D = p on the diagonal and
  c off it a 2 x 2 matrix of m_k = <g'^k> = (2/pi)^(k/2) / sqrt(1+k). Learning diverges where it has a positive
  eigenvalue, eta > eta_c: pi sqrt(5/3) = 4.056 for K = 1, 2.307 for K = 2.
"""

import math

import numba
import numpy as np
import scipy
import xarray

import snapdyn as sd


@numba.njit
def asin_sum(C, sign):
    """pi/2 times the mean of (sum_a sign_a g(h_a))^2 over fields of covariance C (n, n)."""
    scale = np.sqrt(1 + np.diag(C))
    return (np.arcsin(C / np.outer(scale, scale)) * np.outer(sign, sign)).sum()


@numba.njit
def rate(t, state, out, eta):
    """d(Q, R)/dt of the flow."""
    K = int(math.sqrt(state.size // 2) + 0.5)
    (Q, R), (Q_rate, R_rate) = state.reshape(2, K, K), out.reshape(2, K, K)
    C = np.vstack((np.hstack((Q, R)), np.hstack((R.T, np.eye(K)))))
    sign = np.concatenate((-np.ones(K), np.ones(K)))
    Q_rate[:] = 0.0
    for i in range(K):
        once = C - np.outer(C[:, i], C[i]) / (1 + C[i, i])
        drift = 2 / math.pi * (sign * once / np.sqrt((1 + C[i, i]) * (1 + np.diag(once)))).sum(1)  # <delta_i h>
        R_rate[i] = drift[K:]
        Q_rate[i] += drift[:K]
        Q_rate[:, i] += drift[:K]
        for k in range(K):
            twice = once - np.outer(once[:, k], once[k]) / (1 + once[k, k])
            Q_rate[i, k] += 4 * eta / math.pi**2 * asin_sum(twice, sign) / math.sqrt((1 + C[i, i]) * (1 + once[k, k]))


def loss(states):
    """Mean loss of states (n, 2 K^2)."""
    K = math.isqrt(states.shape[1] // 2)
    fields = [np.block([[Q, R], [R.T, np.eye(K)]]) for Q, R in states.reshape(-1, 2, K, K)]
    return np.array([asin_sum(C, np.repeat([-1.0, 1.0], K)) / math.pi for C in fields])


def packed(J):
    """State of students J (K, m): their components along the K rows of the teacher, then outside."""
    return np.concatenate([(J @ J.T).ravel(), J[:, : J.shape[0]].ravel()])


def student(J, eta=0.0):
    """System that starts at students J (K, m)."""
    measures = {"mean_loss": lambda state, eta: loss(state[None])[0]}
    return sd.System.from_function("TeacherStudent", rate, packed(J), {"eta": eta}, observables=measures)


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
    G_p = [m4 + (K - 1) * m2**2, 2 * m3 * m1 + (K - 2) * m2 * h]
    G_c = [2 * (K - 1) * m3 * m1 + (K - 1) * (K - 2) * m2 * h, 2 * m2**2 + (K - 2) * (4 * m2 * h + (K - 3) * h**2)]
    return (eta * np.transpose([G_p, G_c]) - 2 * np.array([[m2, (K - 1) * h], [h, m2 + (K - 2) * h]]))[:K, :K]


def critical_eta(K):
    """Smallest learning rate with a zero eigenvalue at the end of learning."""
    return 1 / (1 - np.linalg.eigvals(np.linalg.solve(end_matrix(K, 0.0), end_matrix(K, 1.0))).real.min())


def train(N, eta, times, start, seeds, rng):
    """SGD of weights in numpy: states (times, seeds, 2 K^2) at t = (eta / N) steps; start (K, m) as in `packed`."""
    K, J, states = len(start), np.zeros((seeds, len(start), N)), []
    J[:, :, : start.shape[1]] = start  # the teacher is the first K unit vectors: the inputs prefer no direction
    record = set(np.rint(np.asarray(times) * N / eta).astype(int))
    for step in range(max(record) + 1):
        if step in record:
            states.append([np.concatenate([(each @ each.T).ravel(), each[:, :K].ravel()]) for each in J])
        xi = rng.standard_normal((seeds, N))
        x = np.einsum("sin,sn->si", J, xi)
        error = scipy.special.erf(xi[:, :K] / math.sqrt(2)).sum(1) - scipy.special.erf(x / math.sqrt(2)).sum(1)
        delta = math.sqrt(2 / math.pi) * np.exp(-(x**2) / 2) * error[:, None]
        J += eta / N * delta[..., None] * xi[:, None, :]
    return np.array(states)


PARTS = np.array([[0.4, 0.1, 0.5, 0.0], [0.1, 0.3, 0.0, 0.5]])  # two students: along the teacher, and outside
PRECISE, OWN = {"rtol": 1e-12, "atol": 1e-15}, "Saad, Solla 1995; own derivation"


def near(number, bound, law):
    """The measure |number(law, parameters)| <= bound; a control takes a wrong law."""
    return lambda p: sd.Measured(abs(number(law, **p)), at_most=bound)


def at_plateau(law, K, along, outside):
    """Loss of equal students at t = 200 less a law; `along` and `outside` are their components."""
    equal = student(np.repeat([[along] * K + [outside]], K, axis=0))
    return loss(sd.integrate(equal, [200.0], **PRECISE).state)[0] - law(K)


def escape(law, K, t):
    """Rate of growth of the broken symmetry until t over lambda at a law's Q and R, less 1."""
    J = np.full((K, K), plateau(K)[1]) + 1e-5 * (np.eye(K) - 1 / K)
    R = sd.integrate(student(J), [t], **PRECISE).state[0, K * K :]
    return math.log((R[0] - R[1]) / 1e-5) / t / escape_rate(K, *law(K)) - 1


def end(noise, K, share):
    """D_11 at t = 40 and eta = share eta_c over that of the 2 x 2 matrix at the rate noise * eta, less 1."""
    eta = share * critical_eta(K)
    state = sd.integrate(student(np.hstack([np.eye(K), 1e-3 * np.eye(K)]), eta), [40.0], **PRECISE).state[0]
    expected = 1e-6 * scipy.linalg.expm(40.0 * end_matrix(K, noise * eta))[0, 0]
    return (state[0] - 2 * state[K * K] + 1) / expected - 1


def finite(eta, N):
    """Slope over N of the distance of SGD from the flow of eta, log-log, minus -1/2, in standard errors."""
    flow = sd.integrate(student(PARTS, eta), [1.0, 2.0, 3.0]).state[:, None]
    runs = [train(each, 1.0, [1.0, 2.0, 3.0], PARTS, 60, np.random.default_rng(each)) for each in N]
    squares = np.array([((run - flow) ** 2).sum(2).mean(0) for run in runs])  # (N, seeds)
    weights = 0.5 * np.linalg.pinv(np.vander(np.log(N), 2))[0]  # log(distance) = log(squared distance) / 2
    error = math.sqrt((squares.var(1, ddof=1) / squares.mean(1) ** 2 / 60) @ weights**2)
    return (np.log(squares.mean(1)) @ weights + 0.5) / error


LINEAR, CLEAN = "wrong theory: linear units", "wrong theory: no noise term"
CLAIMS = (
    sd.Claim("saad-solla-plateau", OWN, "Plateau", "Equal students stop at the plateau's loss.",
        properties=sd.Property("loss minus closed form", "flow", near(at_plateau, 1e-9, lambda K: plateau(K)[2]),
            sd.Box(K=(2, 4), along=(0.05, 0.2), outside=(0.1, 0.8)),
            controls={LINEAR: near(at_plateau, 1e-9, lambda K: loss(packed(np.full((K, K), 1 / K))[None])[0])})),
    sd.Claim("saad-solla-escape", OWN, "Symmetry breaking", "The symmetry breaks as e^(lambda t).",
        properties=sd.Property("rate over lambda, minus 1", "flow", near(escape, 1e-4, lambda K: plateau(K)[:2]),
            sd.Box(K=(2, 6), t=(10.0, 30.0)), controls={LINEAR: near(escape, 1e-4, lambda K: (1 / K, 1 / K))})),
    sd.Claim("saad-solla-end", OWN, "Largest rate", "Learning ends, or diverges, as the matrix.",
        properties=sd.Property("D_11 at t = 40, relative", "flow", near(end, 1e-2, 1.0),
            sd.Box(K=(1, 3), share=(0.8, 1.1)), controls={CLEAN: near(end, 1e-2, 0.0)})),
    sd.Claim("saad-solla-finite-N", OWN, "Finite N", "SGD is within O(N^(-1/2)) of the flow.",
        properties=sd.Property("slope minus -1/2, standard errors", "SGD", near(finite, 3.5, 1.0),
            controls={CLEAN: near(finite, 3.5, 0.0)}, cases={"60 seeds": {"N": [50, 100, 200, 400]}})),
)  # fmt: skip


def curves(level):
    """Loss of the flow (time) and of SGD (N, time) through the plateau, eta = 1."""
    J, t = np.array([[0.12, 0.1, 0.5, 0.0], [0.1, 0.12, 0.0, 0.5]]), np.linspace(0.0, 150.0, 61)
    flow = sd.integrate(student(J, 1.0), t)
    sgd = np.array([loss(train(N, 1.0, t, J, 1, np.random.default_rng(2))[:, 0]) for N in (50, 200)])
    found = {"flow": ("time", loss(flow.state)), "sgd": (("N", "time"), sgd), "plateau": plateau(2)[2]}
    return xarray.Dataset(found, {"time": t, "N": [50, 200]})


def draw(data):
    """Draw theory as lines, SGD as markers."""
    axes = (figure := sd.figures.style.new_figure(3.4, 2.6)).subplots()
    for marker, N in zip("o^", data.N.values, strict=True):
        axes.plot(data.time, data.sgd.sel(N=N), marker, markersize=3, markerfacecolor="white", label=f"SGD, N = {N}")
    axes.plot(data.time, data.flow, "k-", label="flow, $\\eta = 1$")
    axes.axhline(float(data.plateau), color="0.5", linestyle=":", label="plateau, $\\eta = 0$")
    axes.set(yscale="log", xlabel="$t = \\eta$ steps / N", ylabel="mean loss")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


NEARER = sd.Property("mean gap in log loss, N = 200 over N = 50, one seed each", "SGD",
    lambda data: sd.Measured(np.divide(*np.abs(np.log(data.sgd / data.flow)).mean("time")[::-1]), at_most=1),
    controls={"wrong theory: no escape": lambda data: sd.Measured(data.flow[-1] / data.plateau, at_least=0.9)}
)  # fmt: skip
CAPTION = "Two students of two erf units leave the plateau; SGD nears the flow as N grows. One seed each."
FIGURE = sd.FigureEntry("teacher-student", "Online learning of a teacher", CAPTION, curves, draw, properties=(NEARER,))
for entry in (student(PARTS, 1.0), *CLAIMS, FIGURE):
    sd.register(entry)
