"""The candidate: the user's class with a forward that runs Inductor's program, written out.

The forward runs the program where it was made for: inputs and weights of the same shapes, strides, types and device, a
module with the same parts and settings and no hooks, no autocast, and not while somebody compiles or exports it.
Elsewhere the user's own forward runs. Where gradients are recorded, the program computes the result, and the user's
forward, computed anew, the gradients.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import Problem
from stark_lsp.playbook.emit import assemble
from stark_lsp.playbook.inductor import cpp, graphs, triton
from stark_lsp.playbook.inductor.reader import CannotEmit, Program, read
from stark_lsp.playbook.kernels import library
from stark_lsp.playbook.source import OLD_FORWARD, Forward, find_user_class, renamed_class

_FITS = {
    "cpu": '''\
def _stark_fits(tensors, made_for, capability):
    """Whether tensors have the shapes, strides and types that kernels were made for, and the processor is as it was."""
    for tensor, (shape, stride, dtype) in zip(tensors, made_for):
        if tensor.shape != shape or tensor.stride() != stride or tensor.dtype is not dtype or not tensor.is_cpu:
            return False
    return torch.backends.cpu.get_cpu_capability() == capability and not torch.is_autocast_enabled("cpu")
''',
    "cuda": '''\
_stark_capability = functools.lru_cache(maxsize=None)(torch.cuda.get_device_capability)


def _stark_fits(tensors, made_for, capability):
    """Whether tensors have the shapes, strides and types that kernels were made for, and the GPU is like it was."""
    device = tensors[0].device
    for tensor, (shape, stride, dtype) in zip(tensors, made_for):
        if tensor.shape != shape or tensor.stride() != stride or tensor.dtype is not dtype or tensor.device != device:
            return False
    return (
        triton is not None
        and device.type == "cuda"
        and _stark_capability(device) == capability
        and not torch.is_autocast_enabled("cuda")
    )
''',
}
_SHARED = '''\
def _stark_as_made(module, digest):
    """Whether a module has the parts, settings and hooks that its kernels were made for."""
    watched = vars(module).get("_stark_watched")
    if watched is None or any(vars(part).get(name) != value for part, name, value in watched):
        watched, told = [], []
        for path, part in module.named_modules():
            for name, value in sorted(vars(part).items()):
                if name == "_modules":
                    value = dict(value)
                    told.append((path, [(child, type(value[child]).__name__) for child in value]))
                elif name in ("_forward_hooks", "_forward_pre_hooks") and part is not module:
                    value = dict(value)
                    told += [(path, name)] if value else []
                elif name[0] != "_" and name != "training" and _stark_is_plain(value):
                    told.append((path, name, value))
                else:
                    continue
                watched.append((part, name, value))
        if hashlib.sha256(repr(told).encode()).hexdigest()[:16] != digest:
            return False
        module._stark_watched = watched
    return True


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
        pairs = [(out, gradient) for out, gradient in zip(outputs, gradients) if out.requires_grad]
        found = iter(
            torch.autograd.grad(
                [out for out, _ in pairs],
                [x for x, needed in zip(tensors, wanted) if needed],
                [gradient for _, gradient in pairs],
                create_graph=torch.is_grad_enabled(),
                allow_unused=True,
            )
        )
        return (None, None, *(next(found) if needed else None for needed in wanted))
'''
"""The digest is what `judge/analysis/inductor.program` gives as `module`; written there once more."""
_OURS = ("kernels", "torch", "device", "tl", "triton", "libdevice")
"""Names that a program uses otherwise."""


def emit(problem: Problem, made: Mapping[str, Any], comment: str = "", *, replayed: bool = False) -> Candidate:
    """Return the candidate.

    Parameters
    ----------
    made
        What `judge/analysis/inductor.program` returned.
    comment
        A line that goes above the class.
    replayed
        Whether the program is captured as a CUDA graph and replayed.

    Raises
    ------
    CannotEmit, CannotEdit
    """
    program = read(made["code"])
    if len(program.arguments) != len(made["arguments"]):
        raise CannotEmit("its program takes other arguments than it was called with")
    on_gpu = made["device"] == "cuda"
    if not program.kernels and not replayed:
        raise CannotEmit("torch.compile writes no kernel of its own for it")
    user = find_user_class(problem.slice.text, problem.qualname)
    names = {name: short(name) for name in program.kernels}
    kernels = {names[name]: kernel for name, kernel in program.kernels.items()}
    if len(kernels) < len(names):
        raise CannotEmit("two of its kernels have one name")
    if on_gpu:
        imports, rows = ["functools", "hashlib", "torch"], triton.rows(kernels, made["helpers"])
        digest = hashlib.sha256("\n".join([*rows, made["code"]]).encode()).hexdigest()
        ready = ""
        shared = [graphs.TEXT] if replayed else []
        imports += graphs.IMPORTS if replayed else []
    else:
        text = cpp.source(kernels, made["capability"])
        digest = hashlib.sha256(text.encode()).hexdigest()
        imports = ["ctypes", "functools", "glob", "hashlib", "threading", "warnings", "torch"]
        rows = [
            *(f'_STARK_SOURCE_{digest[:6]} = r"""', *text.splitlines(), '"""'),
            f"_STARK_TYPES_{digest[:6]} = {{",
            *(f'    "{name}": {cpp.prototype(one)},' for name, one in kernels.items()),
            "}",
        ]
        ready = f'_stark_library("stark_{digest[:16]}", _STARK_SOURCE_{digest[:6]}, _STARK_TYPES_{digest[:6]})'
        shared = [library.loader("cpu")]
    whole = [
        *(f"import {name}" for name in imports),
        "",
        *rows,
        "",
        f"_STARK_MADE_FOR_{digest[:6]} = (",
        *map(_made_for, made["arguments"]),
        ")",
        *shared,
        "",
        _FITS[made["device"]],
        "",
        _SHARED,
    ]
    extra = [
        "_stark_watched: list | None = None",
        "",
        *_method(program, names, made),
        "",
        *(graphs.method(made["arguments"]) if replayed else []),
        *_form(user.forward, made),
        "",
    ]
    new_class = renamed_class(user, _forward(user.forward, made, digest[:6], ready, replayed), extra, keep_old=True)
    return Candidate(assemble(user, [], "\n".join(whole), [], [comment, *new_class] if comment else new_class))


def short(name: str) -> str:
    """Return a kernel's name in C++ or Triton, as `fused_add_gelu_0`."""
    return triton.short(name) if name.startswith("triton_") else cpp.short(name)


def _made_for(one: Mapping[str, Any]) -> str:
    facts = f"{tuple(one['shape'])}, {tuple(one['stride'])}, torch.{one['dtype']}"
    return f"    ({facts}),  # {one['expression']}"


def _form(forward: Forward, made: Mapping[str, Any]) -> list[str]:
    """Return the method that computes the same in PyTorch, from the same tensors and as the same row of results."""
    inputs = [one["expression"] for one in made["arguments"]]
    given = [name if name.isidentifier() else f"w{place}" for place, name in enumerate(inputs)]
    missing = [name for name in forward.parameters if name not in {*given, *made["values"]}]
    if missing:
        raise CannotEmit(f"the input {missing[0]} is not a tensor that the program reads")
    places = _places(ast.parse(made["result"], mode="eval").body)
    if sorted(places) != list(range(len(places))):
        raise CannotEmit("its program returns more than the module")
    row = ", ".join(f"out{places[place]}" for place in range(len(places)))
    return [
        f"def _form(self, {', '.join(given)}):",
        *(f"    {name} = {value!r}" for name, value in made["values"].items()),
        f"    out = self.{OLD_FORWARD}({forward.call})",
        f"    return ({row}{',' if len(places) == 1 else ''})",
    ]


def _places(node: ast.expr, path: str = "") -> dict[int, str]:
    """Return where in a result each of the program's results is."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return {int(str(node.slice.value)): path}
    found: dict[int, str] = {}
    if isinstance(node, (ast.Tuple, ast.List)):
        for place, item in enumerate(node.elts):
            found |= _places(item, f"{path}[{place}]")
    elif isinstance(node, ast.Dict):
        for key, item in zip(node.keys, node.values, strict=True):
            found |= _places(item, f"{path}[{ast.unparse(key)}]") if key is not None else {}
    return found


def _method(program: Program, names: Mapping[str, str], made: Mapping[str, Any]) -> list[str]:
    """Return the method that runs the program."""
    spelled: dict[str, str] = {}
    for given, one in zip(program.arguments, made["arguments"], strict=True):
        plain = re.sub(r"\W+", "_", one["expression"].removeprefix("self.")).strip("_")
        taken = not plain.isidentifier() or plain in spelled.values() or plain in (*_OURS, *names.values())
        spelled[given] = given if taken or re.fullmatch(r"(buf|arg)\d\w*", plain) else plain
    on_gpu = made["device"] == "cuda"
    launches = triton.by_step(program, made["launches"]) if on_gpu else [None] * len(program.steps)
    lines = []
    for step, how in zip(program.steps, launches, strict=True):
        for item in ast.walk(step.statement):
            if isinstance(item, ast.Name):
                item.id = spelled.get(item.id, item.id)
        if how is not None:
            lines.append(triton.launch(step, names[step.kernel], how))
        elif step.kernel:
            lines.append(cpp.call(step, names[step.kernel]))
        else:
            text = ast.unparse(step.statement)
            lines.append(text if on_gpu else text.replace("device=device", 'device="cpu"'))
    parameters = [*([] if on_gpu else ["kernels"]), *spelled.values()]
    head = ["@staticmethod", f"def _compiled({', '.join(parameters)}):"]
    if on_gpu:
        first = next(iter(spelled.values()))
        return [*head, f"    device = {first}.device", "    with torch.cuda.device(device):", *_indented(lines, 8)]
    return [*head, *_indented(lines, 4)]


def _indented(lines: Sequence[str], by: int) -> list[str]:
    return [" " * by + line for line in lines]


def _forward(forward: Forward, made: Mapping[str, Any], tag: str, ready: str, replayed: bool) -> list[str]:
    """Return the new forward; `ready` is an expression of the kernels, where they are built first."""
    expressions = [one["expression"] for one in made["arguments"]]
    tensors = ", ".join(expressions) + ("," if len(expressions) == 1 else "")
    before = [
        "torch.compiler.is_compiling()",
        *(["any(part.training for part in self.modules())"] if made["mode_matters"] else []),
    ]
    for parameter, value in made["values"].items():
        plainly = value is None or isinstance(value, bool)
        before.append(f"{parameter} is not {value}" if plainly else f"{parameter} != {value!r}")
    before += [f"not isinstance({given}, torch.Tensor)" for given in expressions if given.isidentifier()]
    weights = [one["expression"] for one in made["arguments"] if one["gradient"] and "self." in one["expression"]]
    old = f"self.{OLD_FORWARD}({forward.call})"
    capability = made["capability"] if isinstance(made["capability"], str) else tuple(made["capability"])
    fits = [f"_stark_fits(tensors, _STARK_MADE_FOR_{tag}, {capability!r})".replace("'", '"')]
    fits += [f'_stark_as_made(self, "{made["module"]}")', *([ready] if ready else [])]
    run = "self._compiled"
    if ready:
        choice = ["    kernels = (", f"        {fits[0]}", *(f"        and {one}" for one in fits[1:]), "    )"]
        choice += ["    if not kernels:", f"        return {old}"]
        run = "functools.partial(self._compiled, kernels)"
    else:
        choice = [f"    if not ({' and '.join(fits)}):", f"        return {old}"]
        run = "self._replayed" if replayed else run
    return [
        forward.header,
        f"    if {' or '.join(before)}:",
        f"        return {old}",
        f"    tensors = ({tensors})",
        *choice,
        f"    run = {run}",
        "    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):",
        *_replaced(weights, old),
        "        out = _StarkProgram.apply(self, run, *tensors)",
        "    else:",
        "        out = run(*tensors)",
        f"    return {made['result']}",
    ]


def _replaced(weights: Sequence[str], old: str) -> list[str]:
    """Return lines that hand over where weights were replaced, as `torch.func.functional_call` does for a call."""
    if not weights:
        return []
    row = f"({', '.join(weights)},)"
    return [f"        if not all(isinstance(one, torch.nn.Parameter) for one in {row}):", f"            return {old}"]


__all__ = ["CannotEmit", "emit", "short"]
