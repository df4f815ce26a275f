import torch


def _stark_kind(part):
    """A part's class, which tells torch.nn's own from others of that name."""
    name = type(part).__name__
    return f"nn.{name}" if getattr(torch.nn, name, None) is type(part) else name


def _stark_as_made(part, kind, length=None):
    """Whether a part is of the class that kernels were made for, with its own forward, no hooks, and holds as many."""
    if type(part) is not kind and _stark_kind(part) != kind:
        return False
    hooks = part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
    if length is not None and length != (tuple(part) if isinstance(part, torch.nn.ParameterDict) else len(part)):
        return False
    return not hooks and "forward" not in vars(part)
