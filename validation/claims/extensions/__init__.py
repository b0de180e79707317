"""Initial logits, positional bias, residual connection, embeddings."""

from snapdyn.validation.claims.extensions import old_priors, old_reparameterisation

# In the order of the register.
MODULES = (
    old_priors,
    old_reparameterisation,
)
