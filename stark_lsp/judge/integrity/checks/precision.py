"""A lower precision than the original's, set for everybody and said to nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..tokens import IDENTIFIER, Token
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


_HALF_TYPES = listed(
    "half half2 __half __half2 __half_raw nv_half nv_half2 __nv_bfloat16 __nv_bfloat162 nv_bfloat16 nv_bfloat162 "
    "_Float16 __fp16 __bf16 kHalf kBFloat16 Half BFloat16 half_t bfloat16_t __nv_fp8_e4m3 __nv_fp8_e5m2 kFloat8_e4m3fn "
    "__float2half __float2half_rn __float2bfloat16 __float2bfloat16_rn __floats2half2_rn __floats2bfloat162_rn"
)


def half_in_cpp(candidate: Candidate) -> Iterator[Flag]:
    """Types of 16 bits in C++, where the original has none."""
    reference = candidate.reference
    if reference is None or any(word in reference.source for word in ("half", "float16", "float8", "autocast")):
        return
    for native in candidate.natives:
        tokens = native.unit.tokens
        variables = {tokens[at].text for at in range(len(tokens)) if _is_name(tokens, at)}
        for at, token in enumerate(tokens):
            if token.kind == IDENTIFIER and token.text in _HALF_TYPES - variables and not _only_asked(tokens, at):
                yield Flag("It computes in a lower precision than the original does.", native.line(token))
                return


def _only_asked(tokens: list[Token], at: int) -> bool:
    """Whether a type is compared, a case, a variable's name, or one of several that torch's dispatch lists."""
    after = tokens[at + 1].text if at + 1 < len(tokens) else ""
    start = at
    while start and tokens[start - 1].text in ("::", "at", "torch", "c10", "ScalarType"):
        start -= 1
    asked = tokens[start - 1].text if start else ""
    if asked in ("==", "!=", "case") or after in ("==", "!=", "="):
        return True
    for index in range(at, max(0, at - 30), -1):
        if tokens[index].text in (";", "{", "}"):
            break
        if tokens[index].text.startswith(("AT_DISPATCH", "AT_EXPAND", "TORCH_CHECK", "AT_FLOATING")):
            return True
    return False


def _is_name(tokens: list[Token], at: int) -> bool:
    """Whether `half` is what a variable is called."""
    before = tokens[at - 1].text if at else ""
    return tokens[at].text in ("half", "half2") and before in (
        "float",
        "double",
        "int",
        "int64_t",
        "auto",
        "T",
        "scalar_t",
    )


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
