"""Names of the rungs, and the two branches of the ladder."""

FINITE_T, SGD, DESCENT, MEAN_FIELD, CLOSED = "finite T", "SGD", "descent", "mean field", "closed form"
# Of the ladder of any theory: `ladder_of`.
STOCHASTIC, FLOW = "stochastic", "flow"

EXACT, LEADING, ORBIT, REDUCED = "exact beta", "leading beta", "orbit", "single common token"

ORIGINAL, MODIFIED = "original flow", "modified flow"

UPPER = (FINITE_T, SGD, DESCENT, MEAN_FIELD)

# Below the mean field the ladder forks: attention with the decoder given, the decoder with attention frozen.
BRANCHES = {
    "attention": (*UPPER, EXACT, LEADING, ORBIT, REDUCED, CLOSED),
    "decoder": (*UPPER, ORIGINAL, MODIFIED, CLOSED),
}
