"""A lower precision than the original's, set for everybody and said to nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..uses import CALL, STORE
from ..words import Flag, Refusal, listed

_HALF = listed("half bfloat16")


def lowered_precision(candidate: Candidate) -> Iterator[Refusal]:
    """TF32 switched on, or a lower precision of matrix products."""
    ours = {use.path for use in candidate.reference.uses if use.kind in (CALL, STORE)} if candidate.reference else set()
    assigned = {
        id(target): node.value
        for node in ast.walk(candidate.tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
    }
    for use in candidate.uses:
        if use.path in ours:
            continue
        if use.kind == STORE and use.path.endswith(".allow_tf32"):
            value = assigned.get(id(use.node)) or _third(use.node)
            if not (isinstance(value, ast.Constant) and not value.value):
                yield Refusal("It switches TF32 on: this lowers the precision without saying so.", use.line)
        elif use.kind == STORE and use.path.startswith("torch.backends.") and use.path.endswith("precision"):
            value = assigned.get(id(use.node)) or _third(use.node)
            said = candidate.folder.fold(value) if value is not None else None
            if said is None or said.value != "ieee":
                yield Refusal("It lowers the precision of matrix products without saying so.", use.line)
        elif use.kind == CALL and use.path == "torch.set_float32_matmul_precision" and isinstance(use.node, ast.Call):
            argument = [*use.node.args, *(word.value for word in use.node.keywords)]
            said = candidate.folder.fold(argument[0]) if argument else None
            if said is None or said.value != "highest":
                yield Refusal("It lowers the precision of matrix products without saying so.", use.line)
        elif use.kind == CALL and use.path in ("torch.backends.cudnn.flags", "torch.backends.cuda.sdp_kernel"):
            for word in getattr(use.node, "keywords", []):
                if word.arg == "allow_tf32" and not (isinstance(word.value, ast.Constant) and not word.value.value):
                    yield Refusal("It switches TF32 on: this lowers the precision without saying so.", use.line)


def _third(node: ast.AST) -> ast.expr | None:
    return node.args[2] if isinstance(node, ast.Call) and len(node.args) > 2 else None


def half_precision(candidate: Candidate) -> Iterator[Flag]:
    """Computing in 16 bits what the original computes in 32."""
    if candidate.reference is None:
        return
    ours = _half_uses(candidate.reference)
    for what, line in _half_uses(candidate).items():
        if what not in ours:
            yield Flag("It computes in a lower precision than the original does.", line)
            return


def _half_uses(candidate: Candidate) -> dict[str, int]:
    found: dict[str, int] = {}
    comparisons = {
        id(part) for node in ast.walk(candidate.tree) if isinstance(node, ast.Compare) for part in ast.walk(node)
    }
    casts = {
        id(part): call
        for call in ast.walk(candidate.tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "type")
        for part in [*call.args, *(word.value for word in call.keywords)]
    }
    for use in candidate.uses:
        if use.path in ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast") and use.kind == CALL:
            found.setdefault("autocast", use.line)
        half = use.path in ("torch.float16", "torch.half", "torch.bfloat16")
        if half and id(use.node) in casts and id(use.node) not in comparisons:
            found.setdefault("cast", use.line)
    for node in candidate.forward_nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _HALF
            and not node.args
        ):
            found.setdefault("cast", node.lineno)
    return found
