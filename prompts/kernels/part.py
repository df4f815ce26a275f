import torch


def _stark_part(owner, name, kind, /, **held):
    """What a module's part holds; None where that is of another class, or has hooks, or holds another setting."""
    part = owner("_modules").get(name)  # by attribute it takes 1 us
    fits = type(part) is getattr(torch.nn, kind[3:]) if kind[:3] == "nn." else type(part).__name__ == kind
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "forward")
    whole = {**vars(part), **part._parameters, **part._buffers} if fits else {}
    fits = fits and (whole.items() >= held.items() or all(getattr(part, k, ...) == held[k] for k in held))
    return None if not fits or any(map(whole.get, hooks)) else whole.get
