import torch


def _stark_again(form, module, names, weights, more, *saved):
    """What a form gives anew, and of what: its module's own weights, or those of the call where they are others."""
    count, parts = len(saved) - len(weights), dict(module.named_modules())
    places = [(parts.get(path), key) for path, _, key in (name[5:].rpartition(".") for name in names)]
    now = [part and part._parameters.get(key, part._buffers.get(key)) for part, key in places]
    own = all(x is None or (x is w and not w._backward_hooks) for x, w in zip(now, weights))  # hooks are to run once
    if own and not more:
        inputs = [x.detach().requires_grad_(x.requires_grad).view_as(x) for x in saved[:count]]
        return [*inputs, *weights], form(*inputs)
    views = {id(x): x.view_as(x) if x.requires_grad else x.data for x in saved}  # one for weights that are tied
    tensors = [views[id(x)] for x in saved]
    owner = torch.nn.ModuleDict({"self": module})
    owner.forward = form
    return tensors, torch.func.functional_call(owner, dict(zip(names, tensors[count:])), tuple(tensors[:count]))
