"""Text that a library runs as code without saying so: annotations, type comments, sources for TorchScript."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..candidate import Candidate
from ..parsing import syntax_tree
from ..strings import HOLE
from ..uses import CALL
from ..words import Refusal

_COMMENT = re.compile(r"#\s*type:\s*(?!ignore\b)(.*)")
_RUNS = (ast.Call, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr, ast.Await)
"""What does more than name a type."""
_LATER = re.compile(r"\bfork\b|\bawaitable\w*\b|\brpc\w*\b|\bwait\b")


def code_in_annotations(candidate: Candidate) -> Iterator[Refusal]:
    """Annotations and type comments are run by TorchScript, custom operators and `get_type_hints`."""
    for node in ast.walk(candidate.tree):
        found: list[ast.expr | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(node.returns)
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            found.append(node.annotation)
        for annotation in filter(None, found):
            for part in ast.walk(annotation):
                text = part.value if isinstance(part, ast.Constant) else None
                if isinstance(text, str) and _runs(text):
                    yield Refusal("An annotation holds code.", getattr(annotation, "lineno", None))
    for number, line in enumerate(candidate.source.splitlines(), 1):
        comment = _COMMENT.search(line)
        if comment and any(_runs(part) for part in comment.group(1).split("->")):
            yield Refusal("A type comment holds code.", number)


def _runs(text: str) -> bool:
    """Whether a text does anything when it is run: shapes such as "batch (heads size)" are no Python at all."""
    if "(" not in text and "__" not in text:
        return False
    try:
        tree = syntax_tree(text.strip())
    except (SyntaxError, ValueError):
        return False
    return any(
        isinstance(node, _RUNS) or (isinstance(node, ast.Attribute) and node.attr.startswith("_"))
        for node in ast.walk(tree)
    )


def late_scripts(candidate: Candidate) -> Iterator[Refusal]:
    """Sources for TorchScript: tasks that run later, and sources that are made at run time."""
    ours = {use.path for use in candidate.reference.uses} if candidate.reference else set()
    for use in candidate.uses:
        path = use.path
        if use.kind != CALL or not isinstance(use.node, ast.Call) or path in ours:
            continue
        if path == "torch.jit.CompilationUnit" or path.startswith("torch.jit.CompilationUnit()."):
            if path.count(".") > 2 and not path.endswith(".define"):
                continue
            for argument in [*use.node.args[:1], *(word.value for word in use.node.keywords if word.arg == "lang")]:
                said = candidate.folder.fold(argument)
                if said is None or HOLE in said.value:
                    yield Refusal("It runs TorchScript whose text is only known at run time.", use.line)
                elif _LATER.search(said.value):
                    yield Refusal("It leaves work to be done later.", use.line)
