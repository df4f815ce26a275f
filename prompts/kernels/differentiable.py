import torch


class _StarkDifferentiable(torch.autograd.Function):
    """Forward gives what was launched before; backward computes the PyTorch form of it anew and differentiates that."""

    @staticmethod
    def forward(ctx, launched, form, *tensors):
        ctx.form = form
        ctx.save_for_backward(*tensors)
        return launched()

    @staticmethod
    def backward(ctx, *gradients):
        with torch.enable_grad():
            # A form may read parameters where they are; what is given twice is told apart.
            tensors = [x if isinstance(x, torch.nn.Parameter) else x.view_as(x) for x in ctx.saved_tensors]
            outputs = ctx.form(*tensors)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [pair for pair in zip(outputs, gradients) if pair[0].requires_grad]
        outputs, gradients = zip(*pairs) if pairs else ((), ())
        asked = {id(x): x for x in tensors if x.requires_grad}
        further = {"create_graph": torch.is_grad_enabled(), "allow_unused": True}
        found = dict(zip(asked, torch.autograd.grad(outputs, asked.values(), gradients, **further)))
        return (None, None, *(found.pop(id(x), None) for x in tensors))
