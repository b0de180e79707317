"""Initial logits, positional bias, residual connection, embeddings."""

from snapdyn.validation.claims.extensions import initial_prior, positional_prior, reparameterisation, residual

# In the order of the register.
MODULES = (initial_prior, positional_prior, residual, reparameterisation)
