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
        with torch.enable_grad():
            tensors = [x.view_as(x) for x in ctx.saved_tensors]  # what is given twice is told apart; hooks run once
            outputs = out if isinstance(out := ctx.form(*tensors), tuple) else (out,)
        pairs = [pair for pair in zip(outputs, gradients) if pair[0].requires_grad and pair[1] is not None]
        outputs, gradients = zip(*pairs) if pairs else ((), ())
        asked = {id(x): x for x in tensors if x.requires_grad}
        further = {"create_graph": torch.is_grad_enabled(), "allow_unused": True}
        found = dict(zip(asked, torch.autograd.grad(outputs, asked.values(), gradients, **further)))
        return (None, None, *(found.pop(id(x), None) for x in tensors))
