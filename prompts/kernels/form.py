import torch


class _StarkForm(torch.autograd.Function):
    """Forward gives what was launched before; backward computes the PyTorch form of it anew and differentiates that."""

    @staticmethod
    def forward(ctx, launched, form, *tensors):
        ctx.form = form
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        return (out := launched()) and tuple(x.detach() for x in out)  # no views: in place is fine

    @staticmethod
    def backward(ctx, *gradients):
        further = torch.is_grad_enabled()
        with torch.enable_grad(), torch.autocast("cuda", enabled=False):
            tensors, out = ctx.form(further, *ctx.saved_tensors)
        pairs = zip(out if isinstance(out, tuple) else (out,), gradients)
        pairs = [pair for pair in pairs if pair[0].requires_grad and pair[1] is not None]
        outputs, gradients = zip(*pairs) if pairs else ((), ())
        asked, more = {id(x): x for x in tensors if x.requires_grad}, {"create_graph": further, "allow_unused": True}
        found = dict(zip(asked, torch.autograd.grad(outputs, [*asked.values()], gradients, **more) if asked else ()))
        return (None, None, *(found.pop(id(x), None) for x in tensors))  # one for each tensor
