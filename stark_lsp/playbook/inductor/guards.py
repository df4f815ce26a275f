"""What a candidate brings along besides its kernels: where they may run, and gradients.

The digest of a module's parts and settings is what `judge/analysis/inductor.program` gives as `module`; it is written
here once more, for the user's module.
"""

from __future__ import annotations

_CAPABILITY = {"cpu": "torch.backends.cpu.get_cpu_capability()", "cuda": "_stark_capability(device)"}
_CUDA = "_stark_capability = functools.lru_cache(maxsize=None)(torch.cuda.get_device_capability)\n\n\n"
_SHARED = '''\
# From here to the class: where the kernels may run, which is looked at in every call, and gradients.
def _stark_tensors(module, inputs, made_for, weights_made_for, digest, mode_matters, capability):
    """Inputs and weights of the kernels; None where they were made for other ones, another module or another device."""
    device = getattr(inputs[0], "device", None)
    if not all(_stark_is(x, device, *one) for x, one in zip(inputs, made_for)):
        return None
    if device.type != "{device}" or torch.is_autocast_enabled("{device}") or {capability} != capability:
        return None
    found = vars(module).get("_stark_found")
    if found is None or any(vars(part).get(name) != value for part, name, value in found[0]):
        found = _stark_look(module, weights_made_for, digest, mode_matters)
        if found is None:
            return None
    weights, known = [getattr(part, kind).get(name) for part, kind, name in found[1]], found[2]
    # Other weights, or other memory of the same ones, are looked at; other values are not.
    if known[:1] != [device] or any(x is not one or x.data_ptr() != at for x, (one, at) in zip(weights, known[1:])):
        if not all(_stark_is(x, device, *one, True) for x, one in zip(weights, weights_made_for.values())):
            return None
        known[:] = [device, *((x, x.data_ptr()) for x in weights)]
    return (*inputs, *weights)


def _stark_is(x, device, shape, stride, dtype, weight=False):
    if not isinstance(x, torch.Tensor) or x.shape != shape or x.stride() != stride or x.device != device:
        return False
    # What `torch.func.functional_call` puts in the place of a parameter gets its gradient from the PyTorch form only.
    return x.dtype is dtype and not (weight and x.requires_grad and not isinstance(x, torch.nn.Parameter))


def _stark_look(module, weights_made_for, digest, mode_matters):
    """What to watch of a module, and where its weights are; None where its parts, settings or hooks are others."""
    watched, told, parts = [], [], dict(module.named_modules())
    for path, part in parts.items():
        for name, value in sorted(vars(part).items()):
            if name == "_modules":
                value = dict(value)
                told.append((path, [(child, type(value[child]).__name__) for child in value]))
            elif name in ("_forward_hooks", "_forward_pre_hooks") and part is not module:
                value = dict(value)
                told += [(path, name)] if value else []
            elif name == "training" and mode_matters:
                told += [(path, name)] if value else []
            elif name[0] != "_" and name != "training" and _stark_is_plain(value):
                told.append((path, name, value))
            else:
                continue
            watched.append((part, name, value))
    if hashlib.sha256(repr(told).encode()).hexdigest()[:16] != digest:
        return None
    places = []
    for path in weights_made_for:
        path, _, name = path.rpartition(".")
        places.append((parts[path], "_parameters" if name in parts[path]._parameters else "_buffers", name))
    module._stark_found = watched, places, []
    return module._stark_found


def _stark_is_plain(value):
    if isinstance(value, tuple):
        return all(map(_stark_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


class _StarkProgram(torch.autograd.Function):
    """Forward by kernels; backward computes the module's PyTorch form anew and differentiates that."""

    @staticmethod
    def forward(ctx, module, run, *tensors):
        ctx.module = module
        ctx.save_for_backward(*tensors)
        return run(*tensors)

    @staticmethod
    def backward(ctx, *gradients):
        wanted = ctx.needs_input_grad[2:]
        with torch.enable_grad():
            # The form reads the module's parameters as they are; inputs may be one tensor twice.
            tensors = [x if isinstance(x, torch.nn.Parameter) else x.view_as(x) for x in ctx.saved_tensors]
            outputs = ctx.module._form(*tensors)
        outputs, gradients = zip(*((out, one) for out, one in zip(outputs, gradients) if out.requires_grad))
        asked, again = [x for x, needed in zip(tensors, wanted) if needed], torch.is_grad_enabled()
        found = iter(torch.autograd.grad(outputs, asked, gradients, create_graph=again, allow_unused=True))
        return (None, None, *(next(found) if needed else None for needed in wanted))
'''


def text(device: str) -> str:
    """Return it as Python, the same for all candidates for a device; needs hashlib, torch, on a GPU functools."""
    shared = _SHARED.replace("{device}", device).replace("{capability}", _CAPABILITY[device])
    return (_CUDA if device == "cuda" else "") + shared
