"""Where a candidate's kernels may run, and the gradients of what they compute.

They were made for tensors of some shapes, for a device, and for a module with its parts and settings. Of a module of
few parts the candidate says each by name (`conditions`); of a larger one it holds a digest, which is what
`judge/analysis/inductor.program` gives as `module`, and looks again, at its weights too, only where something was
changed: to look at 160 weights takes 80 us a call, to find that they are the same ones 30. The form, which backward
computes anew, reads the weights that the call had, whatever the module holds by then.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from stark_lsp.playbook import handwritten
from stark_lsp.playbook.names import as_tuple

FEW = 6
"""The most parts that are said by name."""
_CONTAINERS = ("nn.Sequential", "nn.ModuleList", "nn.ModuleDict")
"""Classes whose forward, or whose owner's, may do something else once they have one more part."""
_CAPABILITY = {"cpu": "torch.backends.cpu.get_cpu_capability()", "cuda": "_stark_capability(device)"}
CUDA = "_stark_capability = functools.lru_cache(maxsize=None)(torch.cuda.get_device_capability)"
"""What a candidate for a GPU needs as well."""
_RUN = '''\
def _stark_run(kernels, form, inputs, weights, made_for, capability, held=()):
    """What kernels compute, with the gradients of the PyTorch form; None where they were not made for what is given."""
    tensors, device = (*inputs, *weights), getattr(inputs[0], "device", None)
{sizes}    for x, one in zip(tensors, made_for.values()):
        usual = type(x) in (torch.Tensor, torch.nn.Parameter) and x.device == device and x.layout is torch.strided
        if not usual or (x.shape, x.stride(), x.dtype) != one:
            return None
    if device.type != "{device}" or {autocast}{capability} != capability:
        return None
{elsewhere}{cast}    if not torch.is_grad_enabled() or not any(x.requires_grad for x in tensors):
        return kernels(*tensors)
    others = any(x.requires_grad and not isinstance(x, torch.nn.Parameter) for x in weights)
    if others or any(map(torch.is_inference, tensors)):  # what is made in inference mode cannot be kept
        return None
{whose}{changes}{again}{draws}    with torch.no_grad():
{launch}
    return {apply}, form, *tensors)
'''
_OWN = {
    "_StarkDifferentiable": "_StarkForm",
    "return launched()": "return (out := launched()) and tuple(x.detach() for x in out)  # no views: in place is fine",
}
"""What is otherwise of a module's form."""
_AGAIN = "    form = functools.partial(_stark_again, form, module, [*made_for, *held][len(inputs) :], weights)\n"
_LAUNCH = "        out = kernels(*tensors)"
_REPLAY = """\
        graph = captured(tensors)
        out, turn = (plain(*tensors), 0) if graph is None else graph(tensors)"""
_APPLY = "_StarkForm.apply(lambda: out"
_TRAINED = "_StarkTrained.apply(lambda: out, backward"
_REPLAYED = "_StarkTrained.apply(lambda: (out, graph, turn), backward"
_ELSEWHERE = """\
    if device.index != torch.cuda.current_device():  # entering it would cost every call 4 us
        with torch.cuda.device(device):
            return _stark_run(kernels, form, inputs, weights, made_for, capability, held)
"""
_CHANGES = """\
    # Autograd is not to mind that the next call changes a buffer.
    tensors = (*inputs, *(x if isinstance(x, torch.nn.Parameter) else x.data for x in weights))
    began = [weights[place].clone() for place in {began}]
    form = functools.partial(form, began)
"""
_DRAWS = "    form = _stark_drawing(form, device)\n"
_SIZES = """\
    if not (made_for := made_for(*getattr(inputs[0], "shape", ()){sizes})):
        return None
"""
_UNCAST = 'torch.is_autocast_enabled("{device}") or '
_CAST = """\
    if not torch.is_autocast_enabled("{device}") or torch.get_autocast_dtype("{device}") != torch.{dtype}:
        return None
"""
_UNDER = '''\
def _stark_under(on, run):
    """A function under autocast, or without; weights are cast at each call, since a graph may hold what comes of it."""

    def under(*given):
        with torch.autocast("{device}", torch.{dtype}, enabled=on, cache_enabled=False):
            return run(*given)

    return under
'''


def conditions(parts: Sequence[Sequence[Any]] | None, taken: Set[str] = frozenset()) -> list[str] | None:
    """Return the conditions on a module; None where these would be too many, or are not known.

    Parameters
    ----------
    parts
        What `judge/analysis/inductor.program` gives: path, class, settings and what is missing of each.
    taken
        Names of forward's own.
    """
    if not parts or len(parts) > FEW or len({held(path) for path, *_ in parts} - taken) < len(parts):
        return None
    found = []
    for path, kind, settings, missing in parts:
        asked = settings | dict.fromkeys(missing, "None")
        if kind in _CONTAINERS or not all(map(str.isidentifier, (*asked, *filter(None, path.split("."))))):
            return None
        if path:
            owner, _, name = path.rpartition(".")
            said = [held(owner), f'"{name}"', f'"{kind}"', *(f"{k}={v}" for k, v in settings.items())]
            said[3:3] = [as_tuple([f'"{one}"' for one in missing])] if missing else []
            found.append(f"({held(path)} := _stark_part({', '.join(said)}))")
        else:
            found += [holds(f"self.{name}", value) for name, value in asked.items()]
    return found


def held(path: str) -> str:
    """Return what in forward gives by name what a part of the module holds."""
    return f"of_{path.replace('.', '_')}" if path else "self.__dict__.get"


def holds(expression: str, value: str) -> str:
    """Return the condition that what forward reads is what it was."""
    plain = {"True": expression, "False": f"not {expression}", "None": f"{expression} is None"}
    return plain.get(value, f"({expression} == {value}) is True")  # a tensor equals it otherwise


def text(
    device: str,
    *,
    parts: bool | None,
    trained: str = "",
    passed: Sequence[str] = (),
    autocast: str = "",
    written: bool = True,
    changes: Sequence[int] | None = None,
    draws: bool = False,
    led: bool = False,
    weights: bool = True,
    sizes: str = "",
) -> str:
    """Return what a candidate for a device needs; it needs torch, and hashlib where it compares a digest.

    Parameters
    ----------
    parts
        Whether it has parts, which are said by name; None where a digest is compared.
    trained
        What runs backward by kernels, and
    passed
        what it is given besides kernels.
    autocast
        The dtype that calls are cast to, empty for none.
    written
        Whether kernels are a program, which has the casts written out, or PyTorch's own, which need autocast.
    changes
        The places among the weights of buffers whose values before a call its form needs; None where none changes.
    draws
        Whether it draws random numbers.
    led
        Whether it has results that no weight reaches.
    weights
        Whether it reads weights.
    sizes
        Which part of the shape of its first input may be any, see `reader.open_part`; empty where none may.
    """
    # A program has the casts written out, which PyTorch's own form needs.
    under = {"kernels": not written, **dict.fromkeys(passed, False)}
    casting = _CAST + "".join(f"    {name} = _stark_under({on}, {name})\n" for name, on in under.items())
    run = _RUN.replace("{autocast}", "" if autocast else _UNCAST).replace("{cast}", casting if autocast else "")
    run = run.replace("{sizes}", _SIZES.replace("{sizes}", sizes) if sizes else "")
    again = [_AGAIN] * weights + ["    form = _stark_under(True, form)\n"] * bool(autocast)
    run = run.replace("{whose}", "    module = form.__self__\n" * weights).replace("{again}", "".join(again))
    changing = "" if changes is None else _CHANGES.replace("{began}", str(tuple(changes)))
    run = run.replace("{changes}", changing).replace("{draws}", _DRAWS if draws else "")
    run = "\n\n".join([run, _UNDER] if autocast else [run]).replace("{dtype}", autocast)
    run = run.replace("{elsewhere}", _ELSEWHERE if device == "cuda" else "")
    run = run.replace("{device}", device).replace("{capability}", _CAPABILITY[device])
    replayed = "captured" in passed
    run = run.replace("{launch}", _REPLAY if replayed else _LAUNCH)
    run = run.replace("{apply}", _REPLAYED if replayed else _TRAINED if trained else _APPLY)
    run = run.replace("_run(kernels,", f"_run({', '.join(['kernels', *passed])},")
    whole = [handwritten.written("weights"), handwritten.written("kind")]
    looks = whole if parts is None else [handwritten.written("part")] * parts
    wanted = {"given": weights, "drawing": draws, "led": led, "began": changing}
    more = [handwritten.written(name) for name, wanted in wanted.items() if wanted]
    form = handwritten.differentiable(device, "form" if weights else "differentiable")
    for plain, other in _OWN.items():
        form = form.replace(plain, other)
    return "\n\n".join([*looks, *more, run, form, *filter(None, [trained])])
