"""Names and addresses: the C parameters of a kernel, and where in a tensor the element of a loop lies."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from functools import cached_property

from stark_lsp.playbook.kernels.program import Group, Layout, Program

_C_WORDS = """
alignas asm auto bool break case catch char class const continue default delete do double else enum explicit
extern false float for friend goto if inline int long namespace new operator private protected public register
return short signed sizeof static struct switch template this throw true try typedef union unsigned using
virtual void volatile while and or not xor
and_eq bitand bitor compl not_eq or_eq xor_eq alignof char8_t char16_t char32_t concept consteval constexpr constinit
const_cast co_await co_return co_yield decltype dynamic_cast noexcept nullptr reinterpret_cast requires static_assert
static_cast thread_local typeid typename wchar_t export
"""
_TAKEN = """
row rows cols col segment length count threads stream device visit begin end lane chunk chunks width torch j k n
r i exp log sin cos tan tanh sqrt pow floor ceil round trunc abs erf min max gamma y0 y1 yn j0 j1 jn index div
tile block parts error previous offset warp main time rank at fit held inside base partials self status code
V ITEMS LANES THREADS DOWN WIDTH ACROSS total scratch blocks within value values wanted other share part path down
across shifted arrived cooperative_groups
fits known narrow wide last first item step launch kernels index all left right a b x y to from bits mine own
nearbyint fma fmod copysign expm1 log2 log1p exp2 sinh cosh atan fabs sizeof std dim3 unsigned INFINITY NAN memcpy
uintptr_t size_t int64_t int32_t uint8_t uint16_t uint32_t INT64_MIN INT32_MIN INT64_MAX INT32_MAX UINT8_MAX omp
threadIdx blockIdx blockDim gridDim warpSize STARK_INLINE char2 float2 float4 linux unix signal remainder
cudaGetLastError cudaStream_t cudaGetErrorString cudaError_t cudaGetDevice cudaSetDevice guard Index __half2float
__float2half_rn __bfloat162float __float2bfloat16_rn
"""
_MATH = """
abs fabs sqrt rsqrt exp exp2 expm1 log log2 log1p sin cos tan tanh sinh cosh atan erf pow fmod floor ceil trunc round
nearbyint copysign fma
"""
RESERVED = frozenset(
    {*keyword.kwlist, *_C_WORDS.split(), *_TAKEN.split(), *(f"{f}{kind}" for f in _MATH.split() for kind in ("", "f"))}
)
"""Identifiers that a value of the spec must not take."""

_ENDINGS = ("_i", "_v", "_row", "_lanes", "_kept", "_block", "_parts", "_all", "_stride", "_inverse")


@dataclass(frozen=True)
class Places:
    """Names and addresses for one program."""

    program: Program

    @cached_property
    def names(self) -> dict[str, str]:
        """Operand, step or `out <k>` -> a C identifier that no other has."""
        taken: set[str] = set(RESERVED)
        found: dict[str, str] = {}
        spec = self.program.spec
        wanted = [(o.name, o.name) for o in spec.operands] + [(s.name, s.name) for s in spec.steps]
        outs = len(spec.outputs)
        wanted += [(f"out {k}", "out" if outs == 1 else f"out{k}") for k in range(outs)]
        for key, base in wanted:
            name = "".join(c if c.isalnum() and c.isascii() else "_" for c in base).lstrip("_") or "v"
            name = f"v{name}" if name[0].isdigit() or re.fullmatch(r"[inms]\d+", name) else name
            bare, number = name, 2
            while name in taken or any(name + tail in taken for tail in _ENDINGS):
                name = f"{bare}_{number}"
                number += 1
            taken |= {name, *(name + ending for ending in _ENDINGS)}
            found[key] = name
        return found

    # ------------------------------------------------------------ extents

    @cached_property
    def extents(self) -> dict[Group, str]:
        """Group -> the C variable that holds its extent."""
        program = self.program
        found: dict[Group, str] = {}
        for number, group in enumerate(program.outer):
            found[group] = "rows" if len(program.outer) == 1 else f"n{number}"
        for number, group in enumerate(program.reduced):
            found[group] = "length" if program.layout is Layout.COLUMNS else f"m{number}"
        found[program.groups[-1]] = "n" if program.layout is Layout.FLAT else "cols"
        return found

    @cached_property
    def parameters(self) -> tuple[tuple[str, Group], ...]:
        """The extents a launcher passes, outermost first."""
        return tuple((self.extents[g], g) for g in self.program.groups)

    def rows(self) -> str:
        """The number of rows as a C expression."""
        return " * ".join(self.extents[g] for g in self.program.outer) or "1"

    def segments(self) -> tuple[Group, ...]:
        """Reduced groups before the last of a contiguous row: the row consists of that many pieces."""
        return self.program.reduced[:-1] if self.program.layout is Layout.ROWS else ()

    def segment_index(self) -> dict[Group, str]:
        """The C variable that holds the index along each of these groups."""
        groups = self.segments()
        return {g: "segment" if len(groups) == 1 else f"s{k}" for k, g in enumerate(groups)}

    def segment_lines(self) -> list[str]:
        """Statements that take the number of a piece apart."""
        index = self.segment_index()
        return _take_apart("segment", [(name, self.extents[g]) for g, name in index.items()], set(index.values()))

    def count(self) -> str:
        """The number of elements of a reduction as a C expression."""
        return " * ".join(self.extents[g] for g in self.program.reduced) or "1"

    # ------------------------------------------------------------ addresses

    def strided(self) -> tuple[str, ...]:
        """Operands whose row stride the launcher passes."""
        program = self.program
        if self.segments() or not program.outer or program.layout is Layout.COLUMNS:
            return ()
        return tuple(
            o.name
            for o in program.spec.operands
            if o.strided and len(o.shape) > 1 and all(program.advances(o.name, g) for g in program.groups)
        )

    def _steps(self, groups: tuple[Group, ...], moves: tuple[bool, ...]) -> dict[Group, str]:
        """Group -> elements from one index to the next, for a contiguous tensor that advances along some groups."""
        found: dict[Group, str] = {}
        for at, group in enumerate(groups):
            later = [self.extents[g] for g, move in zip(groups[at + 1 :], moves[at + 1 :], strict=True) if move]
            found[group] = " * ".join(later)
        return found

    def _row(self, moves: tuple[bool, ...], index: dict[Group, str]) -> str:
        groups, whole = self.program.groups, self.program.outer
        index = {**{g: self.index(g) for g in whole}, **index}
        steps = self._steps(groups, moves)
        terms: list[str] = []
        todo = [g for g, move in zip(groups, moves, strict=True) if move]
        if whole and all(g in todo for g in whole):
            after = steps[whole[-1]]
            terms.append(f"row * {_factor(after)}" if after else "row")
            todo = [g for g in todo if g not in whole]
        for group in todo:
            if group in index:
                terms.append(f"{index[group]} * {_factor(steps[group])}" if steps[group] else index[group])
        return " + ".join(terms)

    def operand_row(self, operand: str, index: dict[Group, str]) -> str:
        """Where an operand's row begins, as elements from its start; '' for 0. `index` may add segments."""
        if operand in self.strided():
            return f"row * {self.names[operand]}_stride"
        moves = tuple(self.program.advances(operand, g) for g in self.program.groups)
        return self._row(moves, index)

    def output_row(self, reduced: bool, index: dict[Group, str]) -> str:
        """Where an output's row begins."""
        return self._row(tuple(not (reduced and g.reduced) for g in self.program.groups), index)

    def index(self, group: Group) -> str:
        """The C variable that holds the index along an outer group."""
        return f"i{self.program.outer.index(group)}" if len(self.program.outer) > 1 else "row"

    def decode(self, operands: tuple[str, ...], row: str = "row") -> list[str]:
        """Statements that take a row number apart, for the outer groups that some operand advances along alone."""
        outer = self.program.outer
        partial = [
            o
            for o in operands
            if o not in self.strided() and 0 < sum(self.program.advances(o, g) for g in outer) < len(outer)
        ]
        needed = [g for g in outer if any(self.program.advances(o, g) for o in partial)]
        return _take_apart(row, [(self.index(g), self.extents[g]) for g in outer], {self.index(g) for g in needed})


def _take_apart(number: str, parts: list[tuple[str, str]], needed: set[str]) -> list[str]:
    """Statements that split a flat index into the indices in `needed`; parts are (index, extent), outermost first."""
    if len(parts) < 2:
        return []
    lines = []
    for at, (name, extent) in enumerate(parts):
        if name not in needed:
            continue
        later = " * ".join(e for _, e in parts[at + 1 :])
        value = f"{number} / {_factor(later)}" if later else number
        lines.append(f"const int64_t {name} = {value}{f' % {extent}' if at else ''};")
    return lines


def _factor(product: str) -> str:
    return f"({product})" if "*" in product else product
