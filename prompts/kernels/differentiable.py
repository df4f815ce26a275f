import torch


class _StarkDifferentiable(torch.autograd.Function):
    """Forward gives what was launched before; backward computes the PyTorch form of it anew and differentiates that."""

    @staticmethod
    def forward(ctx, launched, form, *tensors):
        ctx.form = form
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        return launched()

    @staticmethod
    def backward(ctx, *gradients):
        with torch.enable_grad(), torch.autocast("cuda", enabled=False):
            tensors = [x.view_as(x) if x.requires_grad else x.data for x in ctx.saved_tensors]  # hooks run once
            outputs = out if isinstance(out := ctx.form(*tensors), tuple) else (out,)
        pairs = [pair for pair in zip(outputs, gradients) if pair[0].requires_grad and pair[1] is not None]
        outputs, gradients = zip(*pairs) if pairs else ((), ())
        asked, further = [x for x in tensors if x.requires_grad], {"create_graph": torch.is_grad_enabled()}
        found = iter(torch.autograd.grad(outputs, asked, gradients, allow_unused=True, **further) if asked else ())
        return (None, None, *(next(found) if x.requires_grad else None for x in tensors))
