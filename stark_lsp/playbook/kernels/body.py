"""Statements that all generators share: reading operands, computing steps, writing outputs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from stark_lsp.playbook.kernels.expressions import Writer
from stark_lsp.playbook.kernels.places import Places
from stark_lsp.playbook.kernels.program import Pass, Program
from stark_lsp.playbook.kernels.types import COMPUTE
from stark_lsp.playbook.spec import COUNT, KernelSpec, Step

WIDTH = 110
"""Longest line of C++ that several things share."""
SIGNATURE = 118
MAX_INSIDE = 4
"""At most so many values are written inside one statement."""


@dataclass
class Body:
    """A program on its way to C text."""

    program: Program
    writer: Writer
    places: Places = field(init=False)

    def __post_init__(self) -> None:
        self.places = Places(self.program)
        names = self.places.names
        spec = self.program.spec
        for operand in spec.operands:
            self.writer.names[operand.name] = f"{names[operand.name]}_i"
            self.writer.c_types[operand.name] = COMPUTE[operand.dtype]
        for step in spec.steps:
            self.writer.names[step.name] = names[step.name]
            self.writer.c_types[step.name] = COMPUTE[step.dtype]

    @property
    def spec(self) -> KernelSpec:
        """The spec that is written."""
        return self.program.spec

    @property
    def counts(self) -> bool:
        """Whether some step asks how many elements a reduction runs over."""
        return any(COUNT in s.args for s in self.spec.steps if s.name in self.program.needed)

    def operand_type(self, operand: str) -> str:
        """The C type of an operand's elements in memory."""
        return self.writer.storage(self.program.operands[operand].dtype)

    def output_types(self) -> tuple[str, ...]:
        """The C types of the outputs' elements in memory."""
        return tuple(self.writer.storage(o.dtype) for o in self.spec.outputs)

    def pointer_parameters(self) -> list[str]:
        """Parameters for the operands and outputs."""
        names = self.places.names
        found = [f"const {self.operand_type(o.name)}* __restrict__ {names[o.name]}" for o in self.spec.operands]
        found += [f"{t}* __restrict__ {names[f'out {k}']}" for k, t in enumerate(self.output_types())]
        return found

    def size_parameters(self) -> list[str]:
        """Parameters for the extents and row strides."""
        found = [f"int64_t {name}" for name, _ in self.places.parameters]
        return found + [f"int64_t {self.places.names[o]}_stride" for o in self.places.strided()]

    def load(self, operand: str, place: str) -> str:
        """Declare an operand's value, read from a place."""
        c_type = self.writer.c_types[operand]
        value = self.writer.load(self.program.operands[operand].dtype, place)
        return f"const {c_type} {self.writer.names[operand]} = {value};"

    def compute(self, steps: Iterable[Step]) -> list[str]:
        """Declare the values of pointwise steps."""
        lines = []
        for step in steps:
            c_type, value = self.writer.assign(step)
            lines.append(f"const {c_type} {self.places.names[step.name]} = {value};")
        return lines

    def after(self, one: Pass) -> list[str]:
        """Declare the steps on a whole row that follow a pass; they are too few to be worth functions of our own."""
        self.writer.vectors = False
        lines = [*self.compute(one.after), *self.invert((*one.reductions, *one.after))]
        self.writer.vectors = True
        return lines

    def invert(self, steps: Iterable[Step]) -> list[str]:
        """Declare the reciprocals of row values by which elements are divided: a division costs as much as an exp."""
        lines = []
        for step in steps:
            if step.name in self.program.divisors and self.writer.c_types[step.name] == "float":
                name = self.places.names[step.name]
                self.writer.inverses[step.name] = f"{name}_inverse"
                lines.append(f"const float {name}_inverse = 1.0f / {name};")
        return lines

    def output_value(self, number: int) -> str:
        """What is stored for an output."""
        output = self.spec.outputs[number]
        return self.writer.stored(self.writer.names[output.step], self.writer.c_types[output.step], output.dtype)

    def outputs(self, reduced: bool) -> list[int]:
        """Numbers of the outputs of one kind."""
        return [k for k, o in enumerate(self.spec.outputs) if o.reduced == reduced]

    def reduction_value(self, step: Step) -> str:
        """The value that a reduction takes in, as its own compute type."""
        return self.writer.argument(step.args[0], self.writer.c_types[step.name])

    def heading(self) -> list[str]:
        """The comment above the kernel."""
        return [f"// {self.spec.name}: {self.spec.doc}" if self.spec.doc else f"// {self.spec.name}"]

    def title(self, one: Pass) -> str:
        """What a pass is for, as a comment."""
        if one.reductions:
            return f"// Pass over the row: {', '.join(self.places.names[s.name] for s in one.reductions)}."
        return "// Last pass: write the result."


def indent(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Indent lines of C; preprocessor lines too, they read better so."""
    return ["    " * depth + line if line else line for line in lines]


def signature(head: str, parameters: list[str]) -> list[str]:
    """The head of a function up to its opening brace, on one line where it fits."""
    whole = f"{head}({', '.join(parameters)}) {{"
    if len(whole) <= SIGNATURE:
        return [whole]
    return [f"{head}(", *indent([f"{p}," for p in parameters[:-1]] + [f"{parameters[-1]}) {{"])]


_NUMBERED = re.compile(r"(?P<indent>\s*)const (?:float|double) (?P<name>t\d+) = (?P<value>[^;{]*);")
_WHOLE = re.compile(r"\w+(\.\d+f?)?|\w+\([^()]*\)")


def folded(lines: list[str]) -> list[str]:
    """Write a value that has no name of the user's and is used once, by one of the next statements, where it is used.

    Only floating-point values: there a declaration converts nothing. Nothing moves into or out of a loop.
    """
    result: list[str] = []
    words = Counter(word for line in lines for word in re.findall(r"\w+", line))
    waiting: dict[str, tuple[int, str, int]] = {}
    for line in lines:
        if not line.endswith(";") or line.lstrip().startswith(("#", "for", "if")):
            waiting.clear()
        weight = 0
        for name in [name for name in waiting if re.search(rf"\b{name}\b", line)]:
            at, value, held = waiting.pop(name)
            only = re.search(rf"= {name};$", line) is not None
            put = value if only or _WHOLE.fullmatch(value) else f"({value})"
            new = re.sub(rf"\b{name}\b", lambda _, put=put: put, line)  # type: ignore[misc]
            if len(new) > WIDTH or weight + held + 1 > MAX_INSIDE:
                continue
            line, weight = new, weight + held + 1
            result[at] = ""
        found = _NUMBERED.fullmatch(line)
        if found is not None and words[found["name"]] == 2:
            waiting[found["name"]] = (len(result), found["value"], weight)
        result.append(line)
    return [line for line in result if line]


_DECLARED = re.compile(r"\s*const [\w*:<> ]+?[ *](\w+) = [^;{]*;(  //.*)?$")


def without_unused(lines: list[str]) -> list[str]:
    """Leave out declarations that nothing refers to."""
    while True:
        words = Counter(word for line in lines for word in re.findall(r"\w+", line.split("//")[0]))
        kept = [line for line in lines if not ((found := _DECLARED.match(line)) and words[found.group(1)] == 1)]
        if len(kept) == len(lines):
            return lines
        lines = kept
