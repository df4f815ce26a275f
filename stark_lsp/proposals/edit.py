"""From a verified candidate to a change of the user's file.

1. The class must still mean what it meant when the run began (`stale`).
2. The candidate is taken apart (`pieces`); what the document lacks is found and named (`insertion`).
3. Imports go to the document's imports; kernels and class beside the class, in its place, or into a new file.
4. The result must parse. Everything else of the document stays as it is, byte for byte.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.syntax import BOM, first_line, last_line, parse, split_lines
from stark_lsp.proposals.bindings import Bindings, bindings_of
from stark_lsp.proposals.earlier import Earlier, find_earlier, find_replaced, kernels_comment
from stark_lsp.proposals.immediate import immediate_uses
from stark_lsp.proposals.imports import future_edit, import_edits
from stark_lsp.proposals.insertion import InsertionPlan, plan_insertion
from stark_lsp.proposals.layout import LineEdit, Replacement, apply, indent_of, indented, replacements
from stark_lsp.proposals.module_file import NewFile, new_file
from stark_lsp.proposals.pieces import Pieces, joined, take_apart
from stark_lsp.proposals.place import Place, comment_top, end_with_comments, places
from stark_lsp.proposals.renaming import rename
from stark_lsp.proposals.stale import StaleProposal, check_fresh, unreadable

__all__ = ["NewFile", "ProposalEdit", "Replacement", "StaleProposal", "build_edit"]


@dataclass(frozen=True)
class ProposalEdit:
    """The edit that is offered."""

    edits: tuple[Replacement, ...]
    """Changes of the document, in order, without overlap."""
    new_file: NewFile | None
    """A file to create, or None."""
    preview: str
    """The document with `edits` applied."""


def build_edit(
    problem: Problem, document_text: str, candidate: Candidate, provenance_comment: str, mode: WriteMode
) -> ProposalEdit:
    """Return the edit that brings a candidate into the user's code.

    Parameters
    ----------
    problem
        What the candidate was verified against.
    document_text
        The document as it is now. It may differ from `problem.text` wherever the class does not depend on it.
    candidate
        A verified candidate of the problem.
    provenance_comment
        Lines that begin with `#`, to stand above the new class.
    mode
        Where it goes.

    Raises
    ------
    StaleProposal
        The class, or something it uses, is no longer what it was, or the document does not parse.
    Fault
        The candidate cannot be brought into this file; the text says why and what to do instead.
    """
    try:
        tree = parse(document_text)
    except SyntaxError as error:
        raise unreadable(problem, error) from error
    original = check_fresh(problem, tree, document_text)
    pieces = take_apart(candidate)
    if mode is WriteMode.MODULE:
        file = new_file(problem, candidate, pieces, provenance_comment)
        return ProposalEdit((), file, document_text)
    place = next(found for found in places(tree) if found.node is original)
    builder = _Builder(problem, document_text, tree, place, candidate, pieces, provenance_comment)
    edits = replacements(document_text, builder.beside() if mode is WriteMode.BESIDE else builder.replace())
    preview = apply(document_text, edits)
    try:
        parse(preview)
    except SyntaxError as error:
        raise Fault(
            "the proposal does not fit into the file: the result would not be valid Python.",
            cure="Write it to a module of its own.",
            path=problem.path,
            line=original.lineno,
            details=str(error),
        ) from error
    return ProposalEdit(edits, None, preview)


class _Builder:
    """The edits for one document."""

    def __init__(
        self,
        problem: Problem,
        text: str,
        tree: ast.Module,
        place: Place,
        candidate: Candidate,
        pieces: Pieces,
        comment: str,
    ) -> None:
        self.problem = problem
        self.lines = split_lines(text.removeprefix(BOM))
        self.tree = tree
        self.place = place
        self.candidate = candidate
        self.pieces = pieces
        self.comment = comment

    def beside(self) -> list[LineEdit]:
        """Return the edits for a new class after the original one."""
        earlier = find_earlier(self.tree, self.lines, self.problem.new_name)
        bindings = self._bindings(earlier.removed)
        place = self.place
        inside = place.nested and not self._needs_outer()
        name = self._free_name(bindings, earlier, inside)
        reference = f"{place.prefix}{name}" if inside else name
        plan = plan_insertion(self.pieces, bindings, {self.candidate.class_name: reference}, replaced=None)
        edits = [*earlier.edits, *self._head(plan)]
        anchor = place.node if inside or not place.nested else place.outer
        end = end_with_comments(self.lines, anchor)
        if not inside:
            end = max([end, *self._later_shared(plan)])
        indent = indent_of(self.lines[first_line(anchor)])
        room = 1 if inside or indent else 2
        body = self._class_lines(plan, indent)
        if inside:
            edits.extend(self._kernels_before(plan, name, place.outer))
        else:
            body = [*self._kernel_lines(plan, name, indent, room), *body]
        after = [""] * room if self._touches(end + 1, earlier) else []
        edits.append(LineEdit(end + 1, end + 1, (*[""] * room, *body, *after)))
        return edits

    def replace(self) -> list[LineEdit]:
        """Return the edits for a new class in the place and under the name of the original one."""
        place, node = self.place, self.place.node
        if place.nested and self._needs_outer():
            raise Fault(
                f"the proposal derives from {place.outer.name} and cannot stand inside it.",
                cure="Write it beside the class.",
                path=self.problem.path,
                line=node.lineno,
            )
        top_level = not place.nested
        earlier, first = find_replaced(self.tree, self.lines, place)
        bindings = self._bindings((*earlier.removed, *((node,) if top_level else ())))
        reference = f"{place.prefix}{node.name}"
        plan = plan_insertion(
            self.pieces,
            bindings,
            {self.candidate.class_name: reference},
            replaced=node.name if top_level else None,
        )
        indent = indent_of(self.lines[first_line(node)])
        body = self._class_lines(plan, indent)
        return [
            *earlier.edits,
            *self._head(plan),
            *self._kernels_before(plan, node.name, place.outer),
            LineEdit(first, last_line(node) + 1, tuple(body)),
        ]

    def _bindings(self, removed: tuple[ast.stmt, ...]) -> Bindings:
        gone = {id(node) for node in removed}
        cut = {line for node in removed for line in range(first_line(node), last_line(node) + 1)}
        rest = "\n".join(line for number, line in enumerate(self.lines) if number not in cut)
        words = frozenset(re.findall(r"\w+", rest))
        return bindings_of((node for node in self.tree.body if id(node) not in gone), words)

    def _needs_outer(self) -> bool:
        """Whether the class statement itself, not only its methods, refers to the class around the original."""
        return self.place.outer.name in immediate_uses(self.pieces.new_class.definition.node)

    def _free_name(self, bindings: Bindings, earlier: Earlier, inside: bool) -> str:
        if inside and self.place.parent is not None:
            gone = {id(node) for node in earlier.removed}
            around = bindings_of(node for node in self.place.parent.body if id(node) not in gone)
            taken = {*around.statements, *around.imports}
        else:
            taken = {*bindings.statements, *bindings.imports}
        name, number = self.problem.new_name, 2
        while name in taken:
            name, number = f"{self.problem.new_name}{number}", number + 1
        return name

    def _later_shared(self, plan: InsertionPlan) -> list[int]:
        """Return the last lines of what the inserted statements need at once but the document defines further down."""
        at_once: set[str] = set()
        for piece in [*plan.inserted, self.pieces.new_class]:
            at_once |= immediate_uses(piece.definition.node)
        wanted = {piece.meaning for piece in plan.shared if piece.definition.binds & at_once}
        if not wanted or self.place.block != tuple(self.tree.body):
            return []
        return [end_with_comments(self.lines, node) for node in self.tree.body if ast.dump(node) in wanted]

    def _head(self, plan: InsertionPlan) -> list[LineEdit]:
        """Return the edits for imports."""
        edits: list[LineEdit] = []
        if plan.futures:
            edits.append(future_edit(self.tree, self.lines, plan.futures))
        edits.extend(import_edits(self.tree, self.lines, plan.imports, first_line(self.place.chain[0])))
        return edits

    def _kernels_before(self, plan: InsertionPlan, name: str, statement: ast.stmt) -> list[LineEdit]:
        indent = indent_of(self.lines[first_line(statement)])
        lines = self._kernel_lines(plan, name, indent, 1 if indent else 2)
        top = comment_top(self.lines, statement)
        return [LineEdit(top, top, tuple(lines))] if lines else []

    def _kernel_lines(self, plan: InsertionPlan, name: str, indent: str, room: int) -> list[str]:
        if not plan.inserted:
            return []
        text = joined([(piece, rename(piece.text, plan.names)) for piece in plan.inserted])
        return [f"{indent}{kernels_comment(name)}", *indented(text, indent), *[""] * room]

    def _class_lines(self, plan: InsertionPlan, indent: str) -> list[str]:
        text = rename(self.pieces.new_class.text, plan.names)
        comment = [f"{indent}{line}" for line in split_lines(self.comment)]
        return [*comment, *indented(text, indent)]

    def _touches(self, line: int, earlier: Earlier) -> bool:
        """Whether something stands right at a line that is going to stay."""
        for edit in sorted(earlier.edits, key=lambda edit: edit.start):
            if edit.start <= line < edit.end:
                line = edit.end
        return line < len(self.lines) and bool(self.lines[line].strip())
