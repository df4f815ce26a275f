"""Inductor's program, read: which kernels it has, and in which steps its `call` runs them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from stark_lsp.core.editing import split_lines
from stark_lsp.playbook import handwritten

_DROPPED = {
    "assert_size_stride", "assert_size_stride_grouped", "assert_tensor_metadata", "assert_alignment", "args.clear",
    "copy_if_misaligned", "torch.cuda.set_device", "run_intermediate_hooks",
}  # fmt: skip
_EMPTY = re.compile(r"empty_strided_(?:cpu|cuda)$")
_OWN = re.compile(r"(?:buf|workspace_)\d+$")
_COPIED = re.compile(r"buf\d+\.copy_$")
_SLICE = re.compile(r"\[([\d *+()]+):([\d *+()]+)\]")
_NODES = re.compile(r"Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]")
_LANGUAGES = {"cpp_pybinding": "C++", "triton": "Triton"}
SIZES = ("rows", "length")
"""What sizes are called that may be any: of the first dimension that inputs have in common, and of one more."""
_KNOWN = {"torch", "math", "min", "max", *SIZES, "device", *(f"_stark_{name}" for name in handwritten.NAMES)}
_MOST = re.compile(rf"(?<![*+-] )\b({'|'.join(SIZES)}) <= (\d+)(?! [*+-])")
Tree = TypeVar("Tree", bound=ast.AST)


class CannotEmit(Exception):
    """The program has something that is not known here; `str()` says what, for a person."""


@dataclass(frozen=True)
class Kernel:
    """A kernel as Inductor wrote it."""

    name: str
    types: tuple[str, ...]
    """Of its parameters, in C++; none in Triton."""
    text: str
    origins: str = ""
    """The operations that it stands for, where Inductor tells."""


@dataclass(frozen=True)
class Step:
    """A statement of `call`, in public spelling; a launch has the kernel's name."""

    statement: ast.stmt
    kernel: str = ""


@dataclass
class Program:
    """All of it."""

    arguments: tuple[str, ...]
    """Their names in `call`."""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """The last one returns."""
    numbers: dict[str, str] = field(default_factory=dict)
    """Tensors that it holds by name, each as `torch.tensor(…)`."""


def read(code: str, sizes: Mapping[str, Any] = MappingProxyType({})) -> Program:
    """Read a program.

    Parameters
    ----------
    sizes
        What `judge/analysis/sizes.py` tells of those that may be any, if some may.

    Raises
    ------
    CannotEmit
    """
    tree = ast.parse(code)
    lines = split_lines(code)
    made = (_kernel(statement, lines) for statement in tree.body)
    kernels = {one.name: one for one in made if one is not None}
    call = _call(tree)
    body = _unwrapped(call.body)
    program = Program(_arguments(body), kernels)
    used = {item.id for item in ast.walk(call) if isinstance(item, ast.Name)}
    for one in tree.body:
        if isinstance(one, ast.Assign) and ast.unparse(one.value).startswith("torch.tensor("):
            program.numbers |= {name: ast.unparse(one.value) for name in map(ast.unparse, one.targets) if name in used}
    renamed = dict(sizes.get("symbols", {}))
    # The example's may be less than the most there may be, which programs take into account all the same.
    within = {f"min({most}, {name})": name for name, most in _MOST.findall(sizes.get("asks", ""))}
    for statement in body:
        step = _step(statement, renamed, kernels)
        if step is not None and within:
            step = replace(step, statement=_Within(within).visit(step.statement))
        if step is not None:
            program.steps.append(step)
    if not program.steps or not isinstance(program.steps[-1].statement, ast.Return):
        raise CannotEmit("its program does not end with a return")
    _check_names(program)
    return program


def program_of(made: Mapping[str, Any]) -> Program:
    """Return what `judge/analysis/inductor.program` gave, read; without a step where it compiled nothing.

    Raises
    ------
    CannotEmit
    """
    if not made["code"]:
        return Program(tuple(f"arg{place}" for place in range(len(made["arguments"]))))
    return read(made["code"], made.get("sizes", {}))


def open_part(made: Mapping[str, Any]) -> str:
    """Return what takes the sizes that may be any out of the shape of the first input: `[:2]`; empty for none."""
    if "sizes" not in made:
        return ""
    dims = list(made["sizes"]["dims"].values())
    step = dims[-1] - dims[0] if len(dims) > 1 else 1
    return f"[{dims[0] or ''}:{dims[-1] + 1}{f':{step}' if step > 1 else ''}]"


def _check_names(program: Program) -> None:
    """Raise `CannotEmit` if a step reads what neither an argument nor a step before gave."""
    known = {*program.arguments, *program.numbers, *_KNOWN}
    for step in program.steps:
        names = [item for item in ast.walk(step.statement) if isinstance(item, ast.Name)]
        for item in names:
            if isinstance(item.ctx, ast.Load) and item.id not in known and item.id != step.kernel:
                raise CannotEmit(f"its program holds {item.id}, a constant")
        known |= {item.id for item in names if isinstance(item.ctx, ast.Store)}


def _kernel(statement: ast.stmt, lines: list[str]) -> Kernel | None:
    """Return the kernel that a statement at the top level defines, if it defines one."""
    if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
        return None
    called = ast.unparse(statement.value.func)
    if not called.startswith("async_compile."):
        return None
    name, language = ast.unparse(statement.targets[0]), called.removeprefix("async_compile.")
    if language not in _LANGUAGES:
        raise CannotEmit(f"{name} is written in {language}")
    first, text = map(ast.literal_eval, statement.value.args[:2])
    types = tuple(first) if language == "cpp_pybinding" else ()
    return Kernel(name, types, text, _origins(lines, statement.lineno - 1))


def _origins(lines: list[str], row: int) -> str:
    """Return the operations that the comment above a kernel names."""
    while row > 0 and lines[row - 1].startswith("#"):
        row -= 1
        found = _NODES.search(lines[row])
        if found is not None:
            return found[2].replace("aten.", "")
    return ""


def _call(tree: ast.Module) -> ast.FunctionDef:
    for item in ast.walk(tree):
        if isinstance(item, ast.FunctionDef) and item.name == "call":
            return item
    raise CannotEmit("its program has no function call")


def _unwrapped(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements without the blocks that choose a device."""
    found: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.With):
            guard = ast.unparse(statement.items[0].context_expr)
            if "_DeviceGuard" not in guard and "device_guard" not in guard:
                raise CannotEmit(f"its program runs within {guard}")
            found += _unwrapped(statement.body)
        else:
            found.append(statement)
    return found


def _arguments(body: list[ast.stmt]) -> tuple[str, ...]:
    for statement in body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "args":
            (target,) = statement.targets
            return tuple(ast.unparse(item) for item in target.elts) if isinstance(target, ast.Tuple) else ()
    return ()


def _step(statement: ast.stmt, renamed: dict[str, str], kernels: dict[str, Kernel]) -> Step | None:
    """Return a step in public spelling, None for what is needed no more.

    `renamed` has the buffers that go on under another name.
    """
    statement = _Renamed(renamed).visit(statement)
    if isinstance(statement, ast.Delete):
        gone = [name for name in statement.targets if _OWN.match(ast.unparse(name))]
        gone = [name for name in gone if ast.unparse(name) not in renamed.values()]
        return Step(ast.Delete(gone)) if gone else None
    if isinstance(statement, ast.Return):
        if isinstance(statement.value, ast.Tuple):
            # Sizes are among what is kept for backward, last.
            statement.value.elts = [one for one in statement.value.elts if not _is_size(one)]
        return Step(_views(statement))
    value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in SIZES:
        return None
    if isinstance(statement, ast.Assign) and isinstance(value, (ast.Name, ast.BinOp)):
        # Its memory is used again; or it is a number that comes of a size.
        renamed |= {ast.unparse(statement.targets[0]): ast.unparse(value)} if ast.unparse(value) != "args" else {}
        return None
    if isinstance(statement, ast.Assign) and isinstance(value, ast.Subscript):
        return Step(_views(statement))
    if not isinstance(value, ast.Call):
        raise CannotEmit(f"its program has a step that is not known here: {ast.unparse(statement)[:80]}")
    called = ast.unparse(value.func)
    if called in _DROPPED or called.endswith(("get_raw_stream", ".size")):
        return None
    kernel = called.removesuffix(".run")
    if kernel in kernels:
        _views(statement)
        value.func = ast.Name(kernel, ast.Load())
        value.keywords = []
        return Step(statement, kernel)
    if called.endswith(".zero_") or _COPIED.match(called):
        return Step(_views(statement))
    if called.startswith("workspace_"):
        # What blocks of a kernel left is added up: a norm's gradients of its weights.
        text = _SLICE.sub(lambda found: f"[{eval(found[1])}:{eval(found[2])}]", ast.unparse(statement))
        return Step(ast.parse(text).body[0])
    _publicly(value, called)
    return Step(statement)


def _is_size(node: ast.expr) -> bool:
    """Whether something is one of `SIZES`, or comes of them alone."""
    names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
    return bool(names) and names <= {*SIZES, "min", "max"}


def _publicly(value: ast.Call, called: str) -> None:
    """Spell a call as a user would."""
    if _EMPTY.match(called):
        value.func = _name("torch.empty_strided")
        value.keywords = [ast.keyword("dtype", value.args.pop()), ast.keyword("device", _name("device"))]
    elif called == "reinterpret_tensor":
        _views(value)
    elif called == "extern_kernels.convolution":
        value.func = _name("torch.convolution")
        given = {word.arg: word.value for word in value.keywords}
        bias = value.args[2] if len(value.args) > 2 else given.get("bias", ast.Constant(None))
        order = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
        value.args = [*value.args[:2], bias, *(given[word] for word in order)]
        value.keywords = []
    elif called.startswith("extern_kernels."):
        name = called.removeprefix("extern_kernels.")
        if name == "bias_addmm":
            name, value.args[0] = "addmm", _row(value.args[0])
        name = name.removesuffix("_dtype")  # with a result of another type
        if name not in ("mm", "addmm", "bmm", "baddbmm", "_int_mm"):
            raise CannotEmit(f"its program calls {called}")
        value.func = _name(f"torch.{name}")
    elif called.startswith("torch.ops.stark."):
        value.func = _name(f"_stark_{called.split('.')[3]}")
    elif called.startswith("aten."):
        value.func = _name(f"torch.ops.{called}")
    elif not called.startswith("torch.ops.aten."):
        raise CannotEmit(f"its program calls {called}")
    _views(value)


def _views(node: Tree) -> Tree:
    """Spell the views in a statement or expression as a user would."""
    for item in list(ast.walk(node)):
        if isinstance(item, ast.Call) and ast.unparse(item.func) == "reinterpret_tensor":
            tensor, size, stride, *offset = item.args
            item.func = ast.Attribute(tensor, "as_strided", ast.Load())
            item.args = [size, stride]
            if offset and ast.unparse(offset[0]) != "0":
                item.args.append(_name(f"{ast.unparse(tensor)}.storage_offset() + {ast.unparse(offset[0])}"))
    return node


def _row(bias: ast.expr) -> ast.expr:
    """Return one row of a bias that is the same in each: cuBLAS adds that in the kernel of the product."""
    if isinstance(bias, ast.Call) and ast.unparse(bias.func) == "reinterpret_tensor":
        stride = ast.literal_eval(bias.args[2])
        if stride[0] == 0:
            return ast.Subscript(bias, ast.Constant(0), ast.Load())
    return bias


def _name(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class _Within(ast.NodeTransformer):
    """Puts a size in the place of the smaller one of it and the most that it may be."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = self._names.get(ast.unparse(node))
        return self.generic_visit(node) if name is None else ast.Name(name, ast.Load())  # type: ignore[return-value]


class _Renamed(ast.NodeTransformer):
    """Puts the first name of a buffer in the place of later ones, and public names in the place of devices."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._names:
            return _name(self._names[node.id])
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if ast.unparse(node.func) == "device":  # as one is printed: `device(type='cuda', index=0)`
            return _name("torch.device('cpu')" if "'cpu'" in ast.unparse(node) else "device")
        return self.generic_visit(node)  # type: ignore[return-value]
