"""The candidate's source: the slice, with kernels and the new class in the place of the user's.

In order: the slice up to the class, the kernels with what they fall back to, the class as `ModelNew` (constructor and
all other methods as they are, so that checkpoints load; the old forward kept as `_forward_pytorch`), the rest.
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.editing import split_lines
from stark_lsp.core.problem import Problem
from stark_lsp.discovery.imports import import_edits
from stark_lsp.playbook import handwritten
from stark_lsp.playbook.expressions import constant, unparse
from stark_lsp.playbook.forward import ForwardWriter
from stark_lsp.playbook.fusible import Prepared
from stark_lsp.playbook.kernels import Variant, render
from stark_lsp.playbook.lowering import LoweredKernel
from stark_lsp.playbook.regions import Region
from stark_lsp.playbook.source import (
    NEW_NAME,
    OLD_FORWARD,
    CannotEdit,
    UserClass,
    always_there,
    beside,
    class_lines,
    find_user_class,
    module_names,
    renamed_class,
    spelled,
    used_elsewhere,
)  # fmt: skip
from stark_lsp.playbook.spec import KernelSpec
from stark_lsp.playbook.twins import KernelCall, twin

WIDTH = 110
"""Longest condition that stands on one line, without indentation."""
_DEPENDS_ON_MODE = re.compile("Dropout|BatchNorm|InstanceNorm|dropout|batch_norm")


@dataclass(frozen=True)
class Part:
    """One region of a design, with its kernel in one variant."""

    region: Region
    lowered: LoweredKernel
    variant: Variant


def emit(problem: Problem, prepared: Prepared, parts: Sequence[Part], comment: str = "") -> Candidate:
    """Return the candidate of a design; `comment` goes above the new class.

    Raises
    ------
    CannotEdit
        The class is written in a way that cannot be edited.
    CannotWrite
        An operation that stays in PyTorch has no spelling in source.
    """
    user = find_user_class(problem.slice.text, problem.qualname)
    called = spelled(user.tree)
    torch = called.get("torch", "torch")
    taken = module_names(user.tree)
    functional = called.get("torch.nn.functional") or ("F" if "F" not in taken else f"{torch}.nn.functional")
    kernels, shown = _kernels(parts)
    fallbacks = [f"_{kernel.launcher}_pytorch" for kernel, _ in shown]
    twins: list[str] = []
    for (kernel, _), name in zip(shown, fallbacks, strict=True):
        twins += ["", "", *twin(prepared, kernel, name, torch, functional)]
    specs = [(kernel.lowered.spec, variant, name) for (kernel, variant), name in zip(shown, fallbacks, strict=True)]
    library = render(specs, prepared.graph.device) if specs else ""
    reserved = taken | {torch, functional.partition(".")[0]} | {k.launcher for k in kernels}
    reserved |= module_names(ast.parse(library)) | prepared.graph.attributes.keys()
    bail_out = f"return self.{OLD_FORWARD}({user.forward.call})"
    writer = ForwardWriter(
        prepared, kernels, torch=torch, functional=functional, reserved=reserved,
        parameters=user.forward.parameters, bail_out=bail_out,
    )  # fmt: skip
    body = writer.write()
    imports = [] if "torch" in called else ["import torch"]
    if "F" not in taken and functional == "F" and any("F." in line for line in (*body, *twins)):
        imports.append("import torch.nn.functional as F")
    if any("math." in line for line in body) and called.get("math") != "math":
        imports.append("import math")
    checks = _checks(prepared, parts, user)
    conditions = [*_every_call(prepared, parts, torch, user), *map(_fails, checks)]
    library += "\n\n" + handwritten.written("kind") if any("_stark_as_made" in check for check in checks) else ""
    guard = [f"if {' or '.join(conditions)}:", f"    {bail_out}"] if conditions else []
    if guard and len(guard[0]) > WIDTH:
        guard[:1] = ["if (", *(f"    {'or ' if i else ''}{one}" for i, one in enumerate(conditions)), "):"]
    new_forward = [user.forward.header, *(f"    {line}" for line in [*guard, *body])]
    keep_old = any(f"self.{OLD_FORWARD}(" in line for line in new_forward)
    library, renamed = beside(user.tree, library)
    new_class = renamed_class(user, [*map(renamed, new_forward)], keep_old=keep_old)
    if comment:
        new_class = [comment, *new_class]
    return Candidate(assemble(user, imports, library, [*map(renamed, twins)], new_class))


def _kernels(parts: Sequence[Part]) -> tuple[list[KernelCall], list[tuple[KernelCall, Variant]]]:
    """Return a call for each part, and those that need a kernel: parts that compute the same share one launcher."""
    calls: list[KernelCall] = []
    shown: dict[tuple[Any, ...], tuple[KernelCall, Variant]] = {}
    for part in sorted(parts, key=lambda p: p.region.nodes):
        spec = part.lowered.spec
        key = (shape_of(spec), part.variant)
        launcher = shown[key][0].launcher if key in shown else spec.name
        calls.append(KernelCall(part.region, part.lowered, launcher, f"in place of: {_quoted(spec.source_lines)}"))
        shown.setdefault(key, (calls[-1], part.variant))
    return calls, list(shown.values())


def _quoted(lines: Sequence[str]) -> str:
    if not lines:
        return "the original operations"
    more = f"  (and {len(lines) - 1} more line{'s' if len(lines) > 2 else ''})" if len(lines) > 1 else ""
    return textwrap.shorten(lines[0], 80, placeholder=" …") + more


def shape_of(spec: KernelSpec) -> tuple[Any, ...]:
    """Return what a spec computes without its names: equal for two layers that do the same."""
    number = {operand.name: f"o{i}" for i, operand in enumerate(spec.operands)}
    number.update({step.name: f"s{i}" for i, step in enumerate(spec.steps)})

    def known(arg: Any) -> Any:
        return number.get(arg, arg) if isinstance(arg, str) else (type(arg).__name__, arg)

    return (
        spec.space,
        spec.reduce_dims,
        tuple((o.dtype, o.shape, o.strided) for o in spec.operands),
        tuple((s.op, tuple(map(known, s.args)), s.dtype) for s in spec.steps),
        tuple((known(o.step), o.dtype, o.reduced, o.keepdim) for o in spec.outputs),
    )


def _fails(check: str) -> str:
    """The opposite of a check, as short as it can be said."""
    opposite = {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
    tree = ast.parse(check, mode="eval").body
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in opposite:
        tree.ops = [opposite[type(tree.ops[0])]()]
        return unparse(tree)
    return f"not {check}" if isinstance(tree, ast.Call) else f"not ({check})"


def _checks(prepared: Prepared, parts: Sequence[Part], user: UserClass) -> list[str]:
    """Conditions on how the module is built: parts and settings as they were, parameters that are there.

    What is asked of a part stands behind what is asked of those it lies in, and before anything of it is read.
    """
    fused = {node for part in parts for node in part.region.nodes}
    # What is safe in place is written as a function where it is not fused.
    rewritten = [n.module for n in prepared.graph.nodes if n.id in fused or (n.in_place and not n.fence)]
    kinds = {module.path: module.cls for module in rewritten if module is not None}
    made = {path: f'"nn.{kind}"' for path, kind in kinds.items()}
    for path, (kind, named, length) in prepared.graph.modules.items():
        named = named and kind in module_names(user.tree) and kind not in user.forward.parameters
        made[path] = (NEW_NAME if kind == user.name else kind) if named else f'"{kind}"'
        made[path] += "" if length is None else f", {unparse(constant(length))}"
    depth = {path: path.count(".") + path.count("[") for path in made}
    checks = [f"_stark_as_made({path}, {made[path]})" for path in sorted(made, key=depth.__getitem__)]
    modes = [f"{path}.training" for path, kind in kinds.items() if _DEPENDS_ON_MODE.search(kind)]
    checks += [_holds(name, prepared.graph.training) for name in modes]
    held = prepared.module_attributes.items()
    settings = prepared.graph.attributes | {name: value for name, value in held if name.rpartition(".")[0] in kinds}
    other = {"self.training", *(f"{path}.training" for path in kinds), *user.forward.parameters}
    checks += [_holds(name, value) for name, value in settings.items() if name not in other]
    for part in parts:
        for operand in part.lowered.operands:
            node = prepared.graph.nodes[operand.ref.node]
            if node.op == "attribute" and node.target.startswith("self.") and not always_there(user, node.target):
                checks.append(f"{node.target} is not None")
    return list(dict.fromkeys(checks))


def _holds(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        asked = value is True and name.startswith(("(", "type(", "isinstance("))  # a comparison
        return name if asked else f"({name}) is {value}"
    if isinstance(value, float) and math.isnan(value):
        return f"{name} != {name}"
    if isinstance(value, tuple):
        return f"tuple({name}) == {unparse(constant(value))}"
    return f"{name} == {unparse(constant(value))}"


def _every_call(prepared: Prepared, parts: Sequence[Part], torch: str, user: UserClass) -> list[str]:
    """Conditions under which a call is handed to the original forward."""
    graph = prepared.graph
    fused = {node for part in parts for node in part.region.nodes}
    inputs = [node for node in graph.nodes if node.op == "input"]
    conditions = [f"{node.target} is None" for node in inputs if node.target in user.forward.optional]
    told = [f"{node.target} {node.module and node.module.cls}" for node in graph.nodes if node.id in fused]
    if any(map(_DEPENDS_ON_MODE.search, told)) or any(name.endswith(".training") for name in graph.attributes):
        conditions.append("not self.training" if graph.training else "self.training")
    asked = [_fails(_holds(fact.expression, fact.value)) for fact in graph.input_facts]
    # A size has its number here, which the original may count from the last.
    if any(node.op == "size" and node.target.isdigit() for node in graph.nodes):
        asked += [f"{node.target}.dim() != {len(node.meta.shape)}" for node in inputs]
    if graph.read_dtype:
        asked += [f"{node.target}.dtype != {torch}.{node.meta.dtype}" for node in inputs]
    made = any(node.op == "call" and not any(node.refs()) for node in graph.nodes)
    if made or any("float" not in node.meta.dtype for node in inputs):
        conditions.append(f"{torch}.get_default_dtype() is not {graph.default_dtype.replace('torch', torch)}")
    # What only stands for a tensor is not asked.
    kinds = [f"type({node.target}) not in ({torch}.Tensor, {torch}.nn.Parameter)" for node in inputs]
    return [*conditions, *(kinds if asked else []), *asked]


def assemble(user: UserClass, imports: list[str], library: str, twins: list[str], new_class: list[str]) -> str:
    """Return the whole file; imports of the library join those of the user's."""
    lines = split_lines(user.text)
    first, last = class_lines(user)
    if not user.top_level:
        last = max((s.end_lineno or s.lineno) for s in user.tree.body) - 1
    before = lines[:first] if user.top_level and not used_elsewhere(user) else lines[: last + 1]
    hoisted = [s for s in ast.parse(library).body if isinstance(s, (ast.Import, ast.ImportFrom))]
    rows = {row for s in hoisted for row in range(s.lineno - 1, s.end_lineno or s.lineno)}
    library = "\n".join(line for row, line in enumerate(split_lines(library)) if row not in rows)
    present = {ast.unparse(s) for s in user.tree.body if isinstance(s, (ast.Import, ast.ImportFrom))}
    wanted = [text for text in dict.fromkeys([*map(ast.unparse, hoisted), *imports]) if text not in present]
    modules = {text.split()[1] for text in wanted if re.fullmatch(r"import \w+", text)}
    plain = {one.name for s in user.tree.body if isinstance(s, ast.Import) for one in s.names if one.asname is None}
    for other in sorted(modules & module_names(user.tree) - plain):
        raise CannotEdit(f"its file calls something else {other}, which its kernels need to import")
    for edit in reversed(import_edits(user.tree, before, wanted, len(before))):
        before[edit.start : edit.end] = edit.lines
    blocks = ("\n".join(before), library, "\n".join(twins), "\n".join(new_class), "\n".join(lines[last + 1 :]))
    parts = [block.strip("\n") for block in blocks]
    if parts[0].rpartition("\n")[2].startswith(("import ", "from ")) and not parts[1].startswith(("def ", "class ")):
        parts[:2] = [f"{parts[0]}\n\n{parts[1]}"] if parts[1] else parts[:1]
    return "\n\n\n".join(part for part in parts if part) + "\n"
