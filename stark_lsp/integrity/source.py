"""One file, read once for all rules."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import NamedTuple

from stark_lsp.core.parsing import LONGEST, parse
from stark_lsp.integrity import native
from stark_lsp.integrity.names import Names
from stark_lsp.integrity.texts import HOLE, Folder, Text

BUILDERS = frozenset(
    {"torch.utils.cpp_extension.load_inline", "torch.utils.cpp_extension.load", "torch.cuda._compile_kernel"}
)
"""What compiles a kernel's source."""
_SETTERS = frozenset({"builtins.setattr", "builtins.delattr"})
SOURCES = ("cpp_sources", "cuda_sources", "sycl_sources", "source")
_JIT = frozenset({"triton.jit", "triton.runtime.jit.jit", "triton.experimental.gluon.jit"})
_LOOKS_NATIVE = re.compile(r'#\s*include|#\s*define|__global__|extern "C"|#embed')
_WORD = re.compile(r"[A-Za-z_]\w*")


class Use(NamedTuple):
    """A path that is read; the node is the call where it is called."""

    path: str
    node: ast.expr


class Store(NamedTuple):
    """A path that is assigned to."""

    path: str
    node: ast.expr
    value: ast.expr | None


class Native(NamedTuple):
    """One C++ or CUDA text of a file."""

    text: Text
    unit: native.Unit

    def line(self, at: int) -> int:
        """Return the line of the file for a place in the text."""
        return self.text.line(at)


class Source:
    """One file.

    Parameters
    ----------
    text
        The file; a `SyntaxError` is raised if it is not Python.
    class_name
        Its class.
    reference
        The original, if it is known.
    """

    def __init__(self, text: str, class_name: str, reference: Source | None = None) -> None:
        self.text = text
        self.class_name = class_name
        self.reference = reference
        self.tree = parse(text)
        self.names = Names(self.tree)
        self.folder = Folder(self.names)

    @property
    def reference_class(self) -> str:
        """Name of the original's class, empty if it is not known."""
        return self.reference.class_name if self.reference else ""

    @property
    def reference_text(self) -> str:
        """Text of the original's file."""
        return self.reference.text if self.reference else ""

    @cached_property
    def available(self) -> frozenset[str]:
        """Packages that the original imports; its own too, by whichever way it names it."""
        if self.reference is None:
            return frozenset()
        own = tuple(self.reference.relative)
        paths = [path for path, _ in self.imported if path.endswith(own)] if own else []
        return frozenset(path.partition(".")[0] for path in [*paths, *(path for path, _ in self.reference.imported)])

    @cached_property
    def relative(self) -> list[str]:
        """How paths end that are imported from modules of its own package, such as `.base.Middle`."""
        nodes = [node for node in self.names.nodes if isinstance(node, ast.ImportFrom) and node.level and node.module]
        return [f".{node.module}.{alias.name}" for node in nodes for alias in node.names]

    @cached_property
    def calls(self) -> list[ast.Call]:
        """All calls."""
        return [node for node in self.names.nodes if isinstance(node, ast.Call)]

    @cached_property
    def imported(self) -> list[tuple[str, int]]:
        """Paths that are imported, and where."""
        found: list[tuple[str, int]] = []
        for node in self.names.nodes:
            if isinstance(node, ast.Import):
                found += [(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
        return found

    @cached_property
    def used(self) -> list[Use]:
        """Every path from elsewhere that is read or called, the longest of a chain only."""
        found: list[Use] = []
        for node in self.names.nodes:
            if not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
                continue
            above = self.names.parents.get(node)
            if isinstance(above, ast.Attribute) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                continue
            shown = above if isinstance(above, ast.Call) and above.func is node else node
            found += [Use(path, shown) for path in sorted(self.names.of(node)) if not path.endswith("()")]
        return found

    @cached_property
    def stored(self) -> list[Store]:
        """Every path from elsewhere that is assigned to or deleted, by `setattr` too."""
        found: list[Store] = []
        for node in self.names.nodes:
            if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                above = self.names.parents.get(node)
                value = above.value if isinstance(above, ast.Assign) else None
                end = f".{node.attr}" if isinstance(node, ast.Attribute) else "[]"
                found += [Store(f"{path}{end}", node, value) for path in sorted(self.names.of(node.value))]
            elif isinstance(node, ast.Call) and len(node.args) > 1 and self.names.of(node.func) & _SETTERS:
                value = node.args[2] if len(node.args) > 2 else None
                end = f".{self.folder.said(node.args[1]) or '…'}"
                found += [Store(f"{path}{end}", node, value) for path in sorted(self.names.of(node.args[0]))]
        return found

    @cached_property
    def environment(self) -> list[tuple[str, int]]:
        """Variables of the environment that are set, empty for one that cannot be told, and where."""
        keys: list[tuple[ast.expr | None, int]] = []
        found: list[tuple[str, int]] = []
        for node in self.names.nodes:
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                if "os.environ" in self.names.of(node.value):
                    keys.append((node.slice, node.lineno))
            elif isinstance(node, ast.Call):
                paths = self.names.of(node.func)
                if paths & {"os.environ.setdefault", "os.putenv"} and node.args:
                    keys.append((node.args[0], node.lineno))
                elif "os.environ.update" in paths:
                    found += [(word.arg or "", node.lineno) for word in node.keywords]
                    for one in node.args:
                        keys += [(key, node.lineno) for key in (one.keys if isinstance(one, ast.Dict) else [None])]
        return found + [((self.folder.said(key) or "") if key is not None else "", line) for key, line in keys]

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes at the top level by name, also those under an `if` or `try`."""
        found: dict[str, ast.ClassDef] = {}
        stack: list[ast.stmt] = list(reversed(self.tree.body))
        while stack:
            node = stack.pop()
            if isinstance(node, ast.ClassDef):
                found[node.name] = node
            elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                stack += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
                for handler in getattr(node, "handlers", []):
                    stack += handler.body
        return found

    @property
    def main(self) -> ast.ClassDef | None:
        """The candidate's class."""
        return self.classes.get(self.class_name)

    def bases(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        """Return the bases of a class that are in the file, nearest first, theirs included."""
        found: list[ast.ClassDef] = []
        queue = [cls]
        while queue:
            for base in queue.pop(0).bases:
                made = self.classes.get(base.id) if isinstance(base, ast.Name) else None
                if made is not None and made is not cls and made not in found:
                    found.append(made)
                    queue.append(made)
        return found

    def foreign_bases(self, cls: ast.ClassDef) -> bool:
        """Whether a class has a base from elsewhere that may have a forward of its own."""
        plain = {"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module", "builtins.object"}
        return any(
            not self.names.of(base) <= plain
            for base in cls.bases
            if not (isinstance(base, ast.Name) and base.id in self.classes)
        )

    def forward(self, cls: ast.ClassDef) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return a class's own forward, also one that is assigned to that name; None if it has none."""
        for item in cls.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == "forward":
                return item
            if isinstance(item, ast.Assign) and any(getattr(to, "id", "") == "forward" for to in item.targets):
                return ast.parse("def forward(): ...").body[0]  # type: ignore[return-value]
        return None

    @cached_property
    def copies(self) -> set[ast.ClassDef]:
        """Classes that are the original, by name or by what stands in their constructor and forward."""
        if self.reference is None or self.reference.main is None:
            return set()
        wanted = _essence(self.reference.main)
        return {
            cls
            for cls in self.classes.values()
            if cls is not self.main and (cls.name == self.reference.class_name or _essence(cls) == wanted)
        }

    @cached_property
    def jit_functions(self) -> list[ast.FunctionDef]:
        """`@triton.jit` functions."""
        return [
            node
            for node in self.names.nodes
            if isinstance(node, ast.FunctionDef)
            and any(
                self.names.of(item.func if isinstance(item, ast.Call) else item) & _JIT for item in node.decorator_list
            )
        ]

    @cached_property
    def builds(self) -> dict[ast.Call, None]:
        """Calls that compile a source, in order."""
        return dict.fromkeys(call for call in self.calls if self.names.of(call.func) & BUILDERS)

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Functions at the top level by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}

    def source_arguments(self, call: ast.Call) -> list[ast.expr]:
        """Return the expressions of a build's sources."""
        first = 0 if "torch.cuda._compile_kernel" in self.names.of(call.func) else 1
        given = [*call.args[first : first + 2], *(word.value for word in call.keywords if word.arg in SOURCES)]
        found: list[ast.expr] = []
        for one in given:
            found += one.elts if isinstance(one, (ast.List, ast.Tuple)) else [one]
        return [one for one in found if not (isinstance(one, ast.Constant) and not one.value)]

    @cached_property
    def natives(self) -> list[Native]:
        """All C++ and CUDA texts of the file."""
        texts: dict[str, Text] = {}
        inside: set[ast.AST] = set()
        for node in self.names.nodes:
            above = self.names.parents.get(node)
            if above in inside:
                inside.add(node)
                continue
            if not isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Call)) or isinstance(above, ast.Expr):
                continue
            text = self.folder.fold(node)
            if text is not None and _LOOKS_NATIVE.search(text.value):
                inside.add(node)
                texts.setdefault(text.value, text)
        for call in self.builds:
            for argument in self.source_arguments(call):
                text = self.folder.fold(argument)
                if text is not None:
                    texts.setdefault(text.value, text)
        # A text that is part of a longer one is read there.
        kept = list(texts.values())
        if len(kept) <= 40:
            kept = [one for one in kept if not any(one.value in more.value and one is not more for more in kept)]
        found: list[Native] = []
        read = 0
        for text in kept:
            read += len(text.value)
            if read > LONGEST:
                break
            found.append(Native(text, native.read(text.value.replace(HOLE, "_"))))
        return found

    @cached_property
    def words(self) -> frozenset[str]:
        """What the Python part may name a function of a library by: names, attributes, words of short texts."""
        found: set[str] = set()
        for node in self.names.nodes:
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)) and len(node.value) < 500:
                value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if not _LOOKS_NATIVE.search(value):
                    found.update(_WORD.findall(value))
        return frozenset(found)

    @cached_property
    def makes_names(self) -> bool:
        """Whether functions may be named by text that is put together: nothing with a blank in it, as messages have."""
        found = False
        for node in self.names.nodes:
            if isinstance(node, ast.JoinedStr):
                found |= not any(isinstance(part, ast.Constant) and " " in str(part.value) for part in node.values)
            elif isinstance(node, ast.Call) and len(node.args) > 1 and not isinstance(node.args[1], ast.Constant):
                found |= "builtins.getattr" in self.names.of(node.func)
        return found


def _essence(cls: ast.ClassDef) -> str:
    """Return the constructor and forward of a class as text, empty if it has none."""
    methods = {item.name: item for item in cls.body if isinstance(item, ast.FunctionDef)}
    if "forward" not in methods:
        return ""
    parts = []
    for name in ("__init__", "forward"):
        body = methods[name].body if name in methods else []
        parts += [
            ast.dump(item) for item in body if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
        ]
    return "\n".join(parts)
