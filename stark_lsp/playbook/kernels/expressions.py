"""One step as one C expression, the same for both devices apart from the names of the math functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stark_lsp.playbook.kernels.types import COMPUTE, HALVES, STORAGE, is_floating, wider
from stark_lsp.playbook.spec import COUNT, Step

if TYPE_CHECKING:
    from typing import TypeGuard

OWN_ON_CPU = frozenset({"exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf", "sin", "cos"})
"""Operations with a function of ours for float on the CPU: calls into libm keep a loop from being vectorised."""

BINARY = {"add": "+", "sub": "-", "mul": "*"}
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "nearbyint"}


def literal(value: float | int | bool, c_type: str) -> str:
    """Write a number as a C literal of a compute type."""
    if c_type == "bool":
        return "true" if value else "false"
    if not is_floating(c_type):
        whole = int(value)
        if whole == -(2**63):
            return "INT64_MIN"
        return str(whole) if c_type == "int32_t" else f"{c_type}({whole}{'LL' if abs(whole) >= 2**31 else ''})"
    number = float(value)
    if math.isnan(number):
        return "NAN" if c_type == "float" else "double(NAN)"
    suffix = "f" if c_type == "float" else ""
    if math.isinf(number) or (suffix and abs(number) > 3.4028235677973366e38):
        word = "INFINITY" if c_type == "float" else "double(INFINITY)"
        return f"-{word}" if number < 0 else word
    return f"{number!r}{suffix}"


def identity(op: str, c_type: str) -> str:
    """The value a reduction starts from."""
    if op == "sum":
        return literal(0, c_type)
    if op == "prod":
        return literal(1, c_type)
    if c_type == "bool":
        return "false" if op == "amax" else "true"
    if is_floating(c_type):
        return literal(-math.inf if op == "amax" else math.inf, c_type)
    limits = {"int64_t": "INT64", "int32_t": "INT32", "uint8_t": "UINT8"}[c_type]
    if op == "amin":
        return f"{limits}_MAX"
    return "0" if c_type == "uint8_t" else f"{limits}_MIN"


def combine(op: str, left: str, right: str) -> str:
    """Join two partial results of a reduction."""
    if op in ("sum", "prod"):
        return f"{left} {'+' if op == 'sum' else '*'} {right}"
    return f"_stark_{op.removeprefix('a')}({left}, {right})"


def _has_reciprocal(number: str | float | int | bool) -> TypeGuard[float]:
    """Whether a number can be divided by as multiplying by its reciprocal, in float."""
    return not isinstance(number, (str, bool)) and 1e-30 < abs(number) < 1e30


@dataclass
class Writer:
    """Writes steps as C expressions."""

    device_type: str
    """`cpu` or `cuda`."""
    names: dict[str, str] = field(default_factory=dict)
    """Value of the spec -> C identifier."""
    c_types: dict[str, str] = field(default_factory=dict)
    """Value of the spec -> compute type."""
    inverses: dict[str, str] = field(default_factory=dict)
    """Value of a whole row -> C identifier of its reciprocal; elements are multiplied by it instead of divided."""

    vectors: bool = True
    """Whether what is written is in a loop that is vectorised, which calls of the library's functions are not."""
    shifted: frozenset[str] = frozenset()
    """Steps that are `exp(x - amax(x))`."""

    def math(self, op: str, c_type: str, arg: str) -> str:
        """A call of a math function for float or double."""
        if c_type == "float" and self.device_type == "cpu" and self.vectors and op in OWN_ON_CPU:
            return f"_stark_{op}({arg})"
        return f"{op}{'f' if c_type == 'float' else ''}({arg})"

    # ------------------------------------------------------------ memory

    def load(self, dtype: str, place: str) -> str:
        """Read an element as its compute type."""
        if dtype not in HALVES:
            return place
        if self.device_type == "cuda":
            return f"__half2float({place})" if dtype == "float16" else f"__bfloat162float({place})"
        return f"_stark_from_{dtype}({place})"

    def stored(self, value: str, c_type: str, dtype: str) -> str:
        """Convert a computed value to what is stored for a dtype."""
        if dtype in HALVES:
            value = self.converted(value, c_type, "float")
            if self.device_type == "cuda":
                return f"__float2half_rn({value})" if dtype == "float16" else f"__float2bfloat16_rn({value})"
            return f"_stark_to_{dtype}({value})"
        return self.converted(value, c_type, COMPUTE[dtype])

    def storage(self, dtype: str) -> str:
        """The C type of an element in memory."""
        return STORAGE[self.device_type][dtype]

    # ------------------------------------------------------------ values

    def converted(self, value: str, have: str, want: str) -> str:
        """Convert between compute types as torch's casts do."""
        if have == want:
            return value
        if want == "bool":
            return f"({value} != 0)"
        return f"{want}({value})"

    def argument(self, arg: str | float | int | bool, want: str) -> str:
        """An argument of a step as a value of a compute type."""
        if not isinstance(arg, str):
            return literal(arg, want)
        if arg == COUNT:
            return f"{want}(count)"
        return self.converted(self.names[arg], self.c_types[arg], want)

    def common(self, step: Step) -> str:
        """The type in which the arguments of a comparison meet."""
        named = [self.c_types.get(a, "int64_t") for a in step.args if isinstance(a, str)]
        found = named[0] if named else "bool"
        for other in named[1:]:
            found = wider(found, other)
        for arg in step.args:
            if isinstance(arg, str):
                continue
            own = "bool" if isinstance(arg, bool) else "int64_t" if isinstance(arg, int) else "float"
            if own == "bool" or (own == "int64_t" and found != "bool") or is_floating(found):
                continue
            found = wider(found, own)
        return found

    def assign(self, step: Step) -> tuple[str, str]:
        """A pointwise step as (compute type, expression)."""
        c_type = COMPUTE[step.dtype]
        return c_type, self.expression(step, c_type)

    def expression(self, step: Step, c_type: str) -> str:
        """A pointwise step as an expression of a compute type."""
        op = step.op
        if op in COMPARE:
            common = self.common(step)
            left, right = (self.argument(a, common) for a in step.args)
            return f"{left} {COMPARE[op]} {right}"
        if op.startswith("logical_"):
            flags = [self.argument(a, "bool") for a in step.args]
            return (
                f"!{flags[0]}"
                if op == "logical_not"
                else f"{flags[0]} {'&' if op == 'logical_and' else '|'} {flags[1]}"
            )
        if op in ("isnan", "isinf"):
            common = self.common(step)
            value = self.argument(step.args[0], common)
            if not is_floating(common):
                return "false"
            if op == "isnan":
                return f"{value} != {value}"
            return f"{'fabsf' if common == 'float' else 'fabs'}({value}) == INFINITY"
        if op == "where":
            chosen = self.argument(step.args[0], "bool")
            return f"{chosen} ? {self.argument(step.args[1], c_type)} : {self.argument(step.args[2], c_type)}"
        if op == "cast":
            value = self.argument(step.args[0], c_type)
            return f"_stark_round_{step.dtype}({value})" if step.dtype in HALVES else value
        if op == "pow":
            return self._power(step, c_type)
        if op == "div" and step.args[1] in self.inverses and c_type == "float":
            return f"{self.argument(step.args[0], c_type)} * {self.inverses[str(step.args[1])]}"
        if op == "div" and self.device_type == "cuda" and c_type == "float" and _has_reciprocal(step.args[1]):
            # As torch's own CUDA kernel does it for a number: a division costs as much as an exp.
            return f"{self.argument(step.args[0], c_type)} * {literal(1.0 / float(step.args[1]), c_type)}"
        if op == "exp" and step.name in self.shifted and self.device_type == "cuda" and c_type == "float":
            # Of a number <= 0: the fast one is off by less than a rounding of the largest value, which is 1.
            return f"__expf({self.argument(step.args[0], c_type)})"
        return self._arithmetic(op, [self.argument(a, c_type) for a in step.args], c_type)

    def _arithmetic(self, op: str, args: list[str], c_type: str) -> str:
        floating = is_floating(c_type)
        suffix = "f" if c_type == "float" else ""
        one = literal(1, c_type)
        a, b, c = (*args, "", "")[:3]
        minus = f"-({a})" if a.startswith("-") else f"-{a}"
        if op in BINARY:
            if c_type == "bool":
                return f"{a} {'&' if op == 'mul' else '|'} {b}"
            return f"{a} {BINARY[op]} {b}"
        special = {
            "div": f"{a} / {b}",
            "neg": minus,
            "identity": a,
            "square": f"{a} * {a}",
            "reciprocal": f"{one} / {a}",
            "fma": f"{a} * {b} + {c}",
            "abs": f"fabs{suffix}({a})" if floating else f"({a} < 0 ? -{a} : {a})",
            "sqrt": f"sqrt{suffix}({a})",
            "rsqrt": f"rsqrt{suffix}({a})" if self.device_type == "cuda" else f"{one} / sqrt{suffix}({a})",
            "sign": f"{c_type}(({a} > 0) - ({a} < 0))",
            "maximum": f"_stark_max({a}, {b})",
            "minimum": f"_stark_min({a}, {b})",
            "remainder": f"_stark_remainder({a}, {b})",
            "floor_div": f"_stark_floor_div({a}, {b})",
            "sigmoid": f"{one} / ({one} + {self.math('exp', c_type, minus)})",
            "softplus": f"_stark_softplus({a})",
            "log_sigmoid": f"-_stark_softplus({minus})",
        }
        if op in special:
            return special[op]
        if op in ROUNDING:
            return f"{ROUNDING[op]}{suffix}({a})" if floating else a
        return self.math(op, c_type, a)

    def _power(self, step: Step, c_type: str) -> str:
        base = self.argument(step.args[0], c_type)
        exponent = step.args[1]
        one = literal(1, c_type)
        root = "sqrtf" if c_type == "float" else "sqrt"
        if not isinstance(exponent, str):
            known: Mapping[float, str] = {0: one, 1: base, 2: f"{base} * {base}", 3: f"{base} * {base} * {base}"}
            if exponent in known:
                return known[exponent]
            if is_floating(c_type):
                if exponent == 4:
                    return f"_stark_square({base} * {base})"
                more = {0.5: f"{root}({base})", -0.5: f"{one} / {root}({base})"}
                more |= {-1: f"{one} / {base}", -2: f"{one} / ({base} * {base})"}
                if exponent in more:
                    return more[exponent]
        power = "powf" if c_type == "float" else "pow"
        return f"{power}({base}, {self.argument(exponent, c_type)})"
