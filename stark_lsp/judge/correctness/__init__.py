"""Whether a candidate gives what the reference gives."""
