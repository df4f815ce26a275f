import contextlib

import torch


def _stark_with(form, module, names, *given):
    """What a form computes with the last tensors, by their names, in place of those that its module holds."""

    def run(*inputs):
        # Recurrent layers keep their weights in a list besides, and lay out anew what they have not met.
        with contextlib.ExitStack() as stack:
            for part in module.modules():
                if isinstance(part, torch.nn.RNNBase):
                    flat = {name: getattr(part, name) for name in ("_flat_weights", "_flat_weight_refs")}
                    stack.callback(vars(part).update, flat)
                    part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]
                    part._flat_weight_refs = [None] * len(part._flat_weights)
            return form(*inputs)

    count, owner = len(given) - len(names), torch.nn.ModuleDict({"self": module})
    owner.forward = run
    return torch.func.functional_call(owner, dict(zip(names, given[count:])), given[:count])
