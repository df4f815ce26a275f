# For results that no weight reaches.


def _stark_led(x, inputs):
    """A result that requires gradients only where an input does."""
    return x if any(one.requires_grad for one in inputs) else x.detach()
