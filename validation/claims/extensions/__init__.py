"""Initial logits, positional bias, residual connection, embeddings."""

from snapdyn.validation.claims.extensions import initial_prior, old_priors, old_reparameterisation, positional_prior

# In the order of the register.
MODULES = (
    initial_prior,
    positional_prior,
    old_priors,
    old_reparameterisation,
)
