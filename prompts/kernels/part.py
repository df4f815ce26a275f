import torch


def _stark_part(owner, name, kind, none=(), /, **held):
    """What a module's part holds; None where its class or a setting is another, or it has hooks or what it had not."""
    part = owner("_modules").get(name)  # by attribute it takes 1 us
    fits = type(part) is getattr(torch.nn, kind[3:]) if kind[:3] == "nn." else type(part).__name__ == kind
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "forward")
    fits = fits and (vars(part).items() >= held.items() or all(getattr(part, k, ...) == held[k] for k in held))
    whole = {**vars(part), **part._parameters, **part._buffers, **part._modules}.get if fits else {}.get
    return whole if fits and not any(map(whole, hooks)) and all(whole(k) is None for k in none) else None
