"""Initial logits, positional bias, residual connection, embeddings."""
