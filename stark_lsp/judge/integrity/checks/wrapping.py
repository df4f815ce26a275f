"""The original in disguise: kept, derived from, or imported, and called for the result."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..names import own_nodes
from ..uses import IMPORT
from ..words import Flag, Refusal, listed
from .imports import _FINE as KNOWN


def imports_original(candidate: Candidate) -> Iterator[Refusal]:
    """Importing the user's class, under whatever name."""
    wanted = candidate.reference_class.rpartition(".")[2]
    for use in candidate.uses:
        root = use.path.split(".")[0]
        last = use.path.split(".")[-1].split("(")[0]
        if last == wanted and "." in use.path and root not in KNOWN and root not in ("builtins", "@globals"):
            words = "imports" if use.kind == IMPORT else "uses"
            yield Refusal(f"It {words} {wanted} from another module: it must compute the result itself.", use.line)
    main = candidate.main
    if main is not None and not _own_forward(main):
        for base in main.bases:
            name = base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")
            if name == wanted and name not in candidate.classes and wanted != "Module":
                paths = candidate.names.of(base)
                if not any(path.startswith("torch.") for path in paths):
                    yield Refusal(f"It is {wanted} under another name.", main.lineno)


def wraps_original(candidate: Candidate) -> Iterator[Refusal]:
    """A class that computes as the original does, used by a candidate that claims kernels of its own."""
    copies = _copies(candidate)
    main = candidate.main
    if not copies or main is None or not candidate.has_kernels:
        return
    bases = candidate.bases(main)
    for cls in copies:
        if cls is main:
            continue
        if cls in bases:
            if not any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in main.body):
                yield Refusal(f"It is the original ({cls.name}) under another name.", main.lineno)
            for call in _super_calls(candidate, main, cls):
                if not _guarded(candidate, main, call):
                    yield Refusal("It leaves the work to the original's forward.", call.lineno)
        elif cls in candidate.forward_nodes or cls in candidate.mentioned([main]):
            yield Refusal(f"It keeps the original ({cls.name}) and can leave the work to it.", cls.lineno)
    if main in copies and not candidate.reaches_kernel([main]):
        yield Refusal("It is the original, with a kernel that nobody calls.", main.lineno)


def may_fall_back(candidate: Candidate) -> Iterator[Flag]:
    """A derived class that calls the original under a condition."""
    main = candidate.main
    if main is None or not candidate.has_kernels:
        return
    for cls in _copies(candidate):
        if cls is not main and cls in candidate.bases(main):
            for call in _super_calls(candidate, main, cls):
                yield Flag("Under a condition it leaves the work to the original.", call.lineno)


def _own_forward(cls: ast.ClassDef) -> bool:
    return any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in cls.body)


def _copies(candidate: Candidate) -> list[ast.ClassDef]:
    reference = candidate.reference
    if reference is None:
        return []
    original = reference.classes.get(reference.class_name)
    if original is None:
        return []
    wanted = fingerprint(reference, original)
    if wanted is None:
        return []
    return [cls for cls in candidate.classes.values() if fingerprint(candidate, cls) == wanted]


def _super_calls(candidate: Candidate, main: ast.ClassDef, base: ast.ClassDef) -> list[ast.Call]:
    """Return calls of a base's forward in the class's own methods."""
    found = []
    for node in ast.walk(main):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("forward", "__call__")
        ):
            owner = node.func.value
            is_super = isinstance(owner, ast.Call) and getattr(owner.func, "id", "") == "super"
            if is_super or base in candidate.names.functions(owner):
                found.append(node)
    return found


def _guarded(candidate: Candidate, main: ast.ClassDef, call: ast.Call) -> bool:
    """Whether a call stands below an `if` on dtype, device, shape, layout or gradients."""
    for node in ast.walk(main):
        if isinstance(node, ast.If) and any(call in ast.walk(item) for item in [*node.body, *node.orelse]):
            words = {part.attr for part in ast.walk(node.test) if isinstance(part, ast.Attribute)}
            words |= {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)}
            if words & _CONDITIONS:
                return True
    return False


_CONDITIONS = listed(
    "dtype device is_cuda shape size dim ndim numel is_contiguous stride requires_grad is_grad_enabled "
    "training is_available is_floating_point itemsize layout is_sparse"
)


def fingerprint(candidate: Candidate, cls: ast.ClassDef) -> str | None:
    """Return what a class computes, whatever its names: constructor and forward with names numbered.

    Docstrings, annotations, decorators, `pass` and the names of the class, of attributes of `self` and of local
    variables make no difference. None if it has no forward of its own.
    """
    methods = {item.name: item for item in cls.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))}
    forward = methods.get("forward")
    if forward is None:
        return None
    writer = _Writer(candidate, cls)
    parts = [writer.method(methods[name]) for name in ("__init__", "forward") if name in methods]
    # Other methods count if forward calls them.
    called = {node.attr for node in own_nodes(forward) if isinstance(node, ast.Attribute)}
    parts += [writer.method(methods[name]) for name in sorted(called & set(methods)) if name != "forward"]
    return "\n".join(parts)


class _Writer:
    def __init__(self, candidate: Candidate, cls: ast.ClassDef) -> None:
        self._candidate = candidate
        self._cls = cls
        self._attributes: dict[str, str] = {}

    def method(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        self._locals: dict[str, str] = {}
        self._self = node.args.args[0].arg if node.args.args else "self"
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            self._local(argument.arg)
        for part in own_nodes(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                self._local(part.id)
        body = [self._text(item) for item in node.body]
        return "\n".join(line for line in body if line)

    def _local(self, name: str) -> str:
        return self._locals.setdefault(name, f"v{len(self._locals)}")

    def _text(self, node: object) -> str:
        if isinstance(node, list):
            return "[" + ",".join(text for text in map(self._text, node) if text) + "]"
        if not isinstance(node, ast.AST):
            return repr(node)
        if isinstance(node, (ast.Load, ast.Store, ast.Del, ast.Pass)):
            return ""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return ""
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return f"Assign([{self._text(node.target)}],{self._text(node.value)})"
        if isinstance(node, ast.Assign):
            return f"Assign({self._text(node.targets)},{self._text(node.value)})"
        if isinstance(node, ast.Name):
            return self._locals.get(node.id) or self._path(node) or node.id
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == self._self:
                return "self." + self._attributes.setdefault(node.attr, f"a{len(self._attributes)}")
            path = self._path(node)
            return path or f"{self._text(node.value)}.{node.attr}"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super":
            return "super()"
        fields = ",".join(
            self._text(value)
            for name, value in ast.iter_fields(node)
            if name not in ("type_comment", "kind", "annotation", "returns", "decorator_list", "ctx")
        )
        return f"{type(node).__name__}({fields})"

    def _path(self, node: ast.expr) -> str:
        """Return the path of a name from elsewhere, the same for `F.relu` and `torch.nn.functional.relu`."""
        base: ast.AST = node
        while isinstance(base, ast.Attribute):
            base = base.value
        if not isinstance(base, ast.Name) or base.id in self._locals:
            return ""
        return "|".join(sorted(self._candidate.names.of(node)))
