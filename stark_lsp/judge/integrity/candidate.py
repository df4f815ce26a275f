"""One candidate, read once for all checks."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from .names import Names
from .native import Unit, parse
from .parsing import syntax_tree
from .preprocess import TooMuch
from .scopes import Bound, Element, Scopes
from .strings import HOLE, Folder, Text
from .tokens import Token
from .uses import CALL, Use, uses_of

Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
BUILDERS = (
    "torch.utils.cpp_extension.load_inline",
    "torch.utils.cpp_extension.load",
    "torch.cuda._compile_kernel",
)
"""What compiles a kernel's source."""
LIBRARIES = (
    "ctypes.CDLL",
    "ctypes.PyDLL",
    "ctypes.cdll.LoadLibrary",
    "ctypes.pydll.LoadLibrary",
    "torch.ops.load_library",
)
"""What loads a library."""
_JIT = ("triton.jit", "triton.runtime.jit.jit", "triton.experimental.gluon.jit")


class Native(NamedTuple):
    """One C++ or CUDA source in the file."""

    text: Text
    unit: Unit

    def line(self, token: Token) -> int:
        """Return the line of the file that a token is on."""
        return self.text.line(token.start)


class Candidate:
    """One candidate.

    Parameters
    ----------
    source
        Text of the file; parses as Python.
    class_name
        Its class.
    reference
        The original, if it is known and parses.
    reference_class
        The original's class.
    """

    def __init__(
        self, source: str, class_name: str, reference: Candidate | None = None, reference_class: str = "Model"
    ) -> None:
        self.source = source
        self.class_name = class_name
        self.reference = reference
        self.reference_class = reference_class
        self.tree = syntax_tree(source)
        self.scopes = Scopes(self.tree)
        self.folder = Folder(self.scopes)
        self.names = Names(self.tree, self.scopes, self.folder)

    # ---- Python -----------------------------------------------------------------------------------

    @cached_property
    def uses(self) -> list[Use]:
        """Every use of a name from elsewhere."""
        return uses_of(self.tree, self.names, self.folder)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes of the file by name; of several with one name the last."""
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)}

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
                for made in self.names.functions(base):
                    if isinstance(made, ast.ClassDef) and made not in found and made is not cls:
                        found.append(made)
                        queue.append(made)
        return found

    @cached_property
    def docstrings(self) -> set[ast.AST]:
        """Texts that stand alone as statements."""
        return {
            node.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }

    def mentioned(self, start: Iterable[ast.AST], *, constructors: bool = True) -> set[ast.AST]:
        """Return all nodes that running `start` may lead to: through names, attributes of `self`, classes.

        Parameters
        ----------
        constructors
            Whether mentioning a class leads to its `__init__` and to the body of the class.
        """
        seen: set[ast.AST] = set()
        queue = list(start)
        while queue:
            node = queue.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, (ast.Name, ast.Attribute)):
                queue += self._meant(node)
            if isinstance(node, ast.ClassDef) and not constructors:
                queue += [
                    item
                    for item in node.body
                    if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name != "__init__"
                ]
                queue += node.bases
                continue
            queue += ast.iter_child_nodes(node)
        return seen

    def _meant(self, node: ast.Name | ast.Attribute) -> list[ast.AST]:
        bounds: list[Bound] = []
        if isinstance(node, ast.Name):
            bounds = self.scopes.of.get(node, self.scopes.top).find(node.id) or []
        else:
            bounds = self.names.attribute_bounds(node)
        found: list[ast.AST] = self._registering(node)
        for bound in bounds:
            if isinstance(bound.source, ast.AST):
                found.append(bound.source)
            elif isinstance(bound.source, Element):
                found.append(bound.source.of)
        return found

    def _registering(self, node: ast.Name | ast.Attribute) -> list[ast.AST]:
        """Return the builds that an operator of `torch.ops` may come from."""
        if not isinstance(node, ast.Attribute):
            return []
        spaces = {path.split(".")[2] for path in self.names.of(node) if path.startswith("torch.ops.")}
        if not spaces or not spaces & self.namespaces:
            return []
        return [
            call
            for call in self.builds
            if self.names.of(call.func) & {"torch.utils.cpp_extension.load_inline", "torch.ops.load_library"}
        ]

    @cached_property
    def namespaces(self) -> set[str]:
        """Namespaces of operators that the C++ sources register with `TORCH_LIBRARY`."""
        found: set[str] = set()
        for native in self.natives:
            tokens = native.unit.tokens
            for at, token in enumerate(tokens[:-2]):
                if token.text in ("TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT") and tokens[at + 1].text == "(":
                    found.add(tokens[at + 2].text)
        return found

    @cached_property
    def forwards(self) -> list[ast.AST]:
        """The `forward` methods of the class and of its bases in the file, or what is assigned to that name."""
        if self.main is None:
            return []
        found: list[ast.AST] = []
        for cls in [self.main, *self.bases(self.main)]:
            found += [
                item
                for item in cls.body
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name in ("forward", "__call__")
            ]
            bounds = self.scopes.attributes.get(cls, {}).get("forward", [])
            found += [bound.source for bound in bounds if isinstance(bound.source, ast.AST)]
        return found

    @cached_property
    def forward_nodes(self) -> set[ast.AST]:
        """All nodes that a forward pass may run."""
        return self.mentioned(self.forwards, constructors=False)

    @cached_property
    def forward_functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]:
        """All functions of the file that a forward pass may run, by line."""
        found = [n for n in self.forward_nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
        return sorted(found, key=lambda node: node.lineno)

    # ---- kernels ----------------------------------------------------------------------------------

    @cached_property
    def jit_functions(self) -> list[ast.FunctionDef]:
        """`@triton.jit` functions."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                for item in node.decorator_list:
                    called = item.func if isinstance(item, ast.Call) else item
                    if self.names.of(called) & set(_JIT):
                        found.append(node)
                        break
        return found

    @cached_property
    def builds(self) -> list[ast.Call]:
        """Calls that compile a source or load a library."""
        wanted = set(BUILDERS) | set(LIBRARIES)
        found = {id(use.node): use.node for use in self.uses if use.kind == CALL and use.path in wanted}
        return [node for node in found.values() if isinstance(node, ast.Call)]

    @property
    def has_kernels(self) -> bool:
        """Whether the file claims kernels of its own."""
        return bool(self.builds or self.jit_functions)

    def reaches_kernel(self, nodes: Iterable[ast.AST]) -> bool:
        """Whether running these nodes may build, load or launch a kernel of the file."""
        seeds: set[ast.AST] = {*self.builds, *self.jit_functions}
        return bool(self.mentioned(nodes) & seeds)

    # ---- C++ --------------------------------------------------------------------------------------

    @cached_property
    def natives(self) -> list[Native]:
        """All C++ and CUDA sources of the file.

        Raises
        ------
        preprocess.TooMuch
            The macros of one expand to too much text.
        """
        texts: dict[str, Text] = {}
        for node in ast.walk(self.tree):
            if node in self.docstrings or not isinstance(
                node, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Call, ast.Subscript)
            ):
                continue
            text = self.folder.fold(node)
            if text is not None and text.parts and looks_native(text.value):
                texts.setdefault(text.value, text)
        for call in self.builds:
            for argument in source_arguments(call):
                for part in argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else [argument]:
                    text = self.folder.fold(part)
                    if text is not None and text.parts:
                        texts.setdefault(text.value, text)
        # A text that is part of a longer one is read there.
        kept = [one for one in texts.values() if not any(one.value in more and one.value != more for more in texts)]
        kept.sort(key=lambda text: text.line(0))
        found = []
        for text in kept:
            try:
                found.append(Native(text, parse(text.value.replace(HOLE, "_"))))
            except TooMuch as error:
                error.line = text.line(0)
                raise
        return found

    @cached_property
    def words(self) -> set[str]:
        """Attribute names, names, and short texts of the Python part: what may name a function of a library."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)) and len(node.value) < 256:
                value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                if node not in self.docstrings:
                    found.add(value)
        return found


def looks_native(text: str) -> bool:
    """Whether a text may be C++: it holds a directive, or statements in braces."""
    return any(mark in text for mark in ("#include", "#define", "__global__", 'extern "C"', "#embed")) or (
        "{" in text and "}" in text and ";" in text and "(" in text
    )


def source_arguments(call: ast.Call) -> list[ast.expr]:
    """Return the expressions of a build's sources."""
    found = list(call.args[1:3])
    found += [
        word.value for word in call.keywords if word.arg in ("cpp_sources", "cuda_sources", "sycl_sources", "source")
    ]
    return found
