"""The decoder with frozen attention: logits, speed control, Remark 1."""
