import functools

import torch


def _stark_again(form, module, names, weights, more, *saved):
    """What a form gives anew, and of what: its module's own weights, or those of the call where they are others."""
    count = len(saved) - len(weights)
    now = [functools.reduce(lambda part, key: getattr(part, key, None), name.split(".")[1:], module) for name in names]
    own = all(x is None or (x is w and not w._backward_hooks) for x, w in zip(now, weights))  # hooks are to run once
    if own and not more:
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in saved[:count]]
        return [*inputs, *weights], form(*inputs)
    tensors = [x.view_as(x) if x.requires_grad else x.data for x in saved]
    owner = torch.nn.ModuleDict({"self": module})
    owner.forward = form
    return tensors, torch.func.functional_call(owner, dict(zip(names, tensors[count:])), tuple(tensors[:count]))
