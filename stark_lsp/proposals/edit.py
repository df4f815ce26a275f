"""From a verified candidate to a change of the user's file.

1. The class must still mean what it meant when the run began (`stale`).
2. The candidate is taken apart (`pieces`); what the document lacks is found and named (`insertion`).
3. Imports go to the document's imports; kernels and class beside the class, in its place, or into a new file. What an
   earlier proposal for the class left makes room, unless somebody edited it (`accepted`).
4. The result must compile. Everything else of the document stays as it is, byte for byte.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stark_lsp.contract.registering import registering
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.editing import Replacement, apply_edits
from stark_lsp.core.errors import Fault
from stark_lsp.core.parsing import last_name
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import KernelPlace, WriteMode
from stark_lsp.discovery.imports import import_edits
from stark_lsp.discovery.layout import LineEdit, indent_of, indented, replacements
from stark_lsp.discovery.place import Place, comment_top, end_with_comments, places
from stark_lsp.discovery.syntax import BOM, check_compiles, first_line, last_line, parse, split_lines, targets
from stark_lsp.proposals.accepted import Accepted, cut, find_accepted, nested_in
from stark_lsp.proposals.annotations import quoted
from stark_lsp.proposals.bindings import Bindings, bindings_of
from stark_lsp.proposals.insertion import InsertionPlan, plan_insertion
from stark_lsp.proposals.module_file import NewFile, new_file
from stark_lsp.proposals.package_kernels import SharedFile, split
from stark_lsp.proposals.pieces import Piece, Pieces, joined, take_apart
from stark_lsp.proposals.provenance import UNKNOWN, Mark, kernels_comment
from stark_lsp.proposals.renaming import rename
from stark_lsp.proposals.scopes import declared_global, reads, stored, without
from stark_lsp.proposals.shared import is_shared
from stark_lsp.proposals.stale import StaleProposal, check_comments, check_fresh, unreadable

__all__ = ["NewFile", "ProposalEdit", "StaleProposal", "build_edit"]


@dataclass(frozen=True)
class ProposalEdit:
    """The edit that is offered."""

    edits: tuple[Replacement, ...]
    """Changes of the document, in order, without overlap."""
    new_file: NewFile | None
    """A file to create, or None."""
    preview: str
    """The document with `edits` applied."""
    qualname: str
    """The class that the edit brings, in the document or in the new file."""
    notes: tuple[str, ...] = ()
    """What the user should know of it, a sentence each."""
    shared: SharedFile | None = None
    """The file of the package with what its kernels share, if it goes there."""


def build_edit(
    problem: Problem,
    document_text: str,
    candidate: Candidate,
    provenance_comment: str,
    mode: WriteMode,
    kernels: KernelPlace = KernelPlace.INLINE,
    opened: str | None = None,
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
    kernels
        Where what its kernels share with others goes.
    opened
        The text of the package's file for that (see `package_kernels`) in an editor, None if it is not open there.

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
    pieces, shared = take_apart(candidate), None
    found = registering(pieces.new_class.definition.node) if mode is not WriteMode.REPLACE else []
    if found:
        pieces = take_apart(replace(candidate, source=_unregistered(candidate.source, found)))
    notes = _registered_alone(found, original.name)
    if kernels is KernelPlace.PACKAGE:
        pieces, shared = split(pieces, problem.path, document_text, opened)
    if mode is WriteMode.MODULE:
        file = new_file(problem, candidate, pieces, provenance_comment)
        return ProposalEdit((), file, document_text, file.class_name, (*notes, *_copies(problem, tree, pieces)), shared)
    place = next(found for found in places(tree) if found.node is original)
    builder = _Builder(problem, document_text, tree, place, candidate, pieces, provenance_comment)
    builder.notes += notes
    lines = builder.beside() if mode is WriteMode.BESIDE else builder.replace()
    edits = replacements(document_text, lines)
    preview = apply_edits(document_text, edits)
    _check(problem, document_text, preview, original)
    # Only now is it known what stands in the file, names and all.
    after = parse(preview)
    accepted = find_accepted(after, split_lines(preview.removeprefix(BOM)))
    new = next(found for found in accepted if found.mark == builder.mark(UNKNOWN))
    unknown, known = str(new.mark), str(builder.mark(new.digest))
    marked = [LineEdit(e.start, e.end, tuple(line.replace(unknown, known) for line in e.lines)) for e in lines]
    edits = replacements(document_text, marked)
    return ProposalEdit(edits, None, apply_edits(document_text, edits), new.qualname, tuple(builder.notes), shared)


def _check(problem: Problem, before: str, after: str, original: ast.ClassDef) -> None:
    try:
        check_compiles(after)
    except SyntaxError as error:
        try:
            check_compiles(before)
        except SyntaxError as earlier:
            raise unreadable(problem, earlier) from error
        raise Fault(
            "the proposal does not fit into the file: the result would not be valid Python.",
            cure="Write it to a module of its own.",
            path=problem.path,
            line=original.lineno,
            details=str(error),
        ) from error


def _copies(problem: Problem, tree: ast.Module, pieces: Pieces) -> tuple[str, ...]:
    """Return a note on what a file of its own has copies of, where it matters that these are others."""
    mutable = (ast.List, ast.Dict, ast.Set, ast.Call)
    watched = {one.name for one in tree.body if isinstance(one, ast.ClassDef)} | declared_global(tree)
    for one in tree.body:
        if isinstance(one, (ast.Assign, ast.AnnAssign)) and isinstance(one.value, mutable):
            watched |= {name.id for name in targets(one) if isinstance(name, ast.Name)}
    found = [name for piece in pieces.definitions for name in sorted(piece.definition.binds) if name in watched]
    if not found:
        return ()
    file = os.path.basename(problem.path)
    return (
        f"The new file has copies of {', '.join(found)}: what is changed in {file}, or compared with its classes, "
        "is not seen there.",
    )


def _left_out(original: ast.ClassDef, new: ast.stmt) -> list[str]:
    """Return what others can see of a class that the one in its place has not: bases, decorators, public names."""
    bases = {last_name(base) for base in getattr(new, "bases", ())}
    if not isinstance(new, ast.ClassDef) or original.name in bases:
        return []
    decorators = {ast.dump(one) for one in new.decorator_list}
    return [
        *(f"its base {ast.unparse(base)}" for base in original.bases if last_name(base) not in bases),
        *(f"@{ast.unparse(one)}" for one in original.decorator_list if ast.dump(one) not in decorators),
        *(name for name in _public(original) if name not in _public(new)),
    ]


_COMMA = re.compile(r",(?:\s|#.*\n)*\Z")
"""What stands between two parts of a class's header, at the end of a text."""


def _unregistered(source: str, found: Sequence[ast.expr | ast.keyword]) -> str:
    """Return a candidate without what registers its class, see `registering`: under that name there is the original."""
    lines = split_lines(source.removeprefix(BOM))
    for one in sorted(found, key=lambda one: (one.lineno, one.col_offset), reverse=True):
        first, last = one.lineno - 1, (one.end_lineno or one.lineno) - 1
        kept: list[str] = []
        if isinstance(one, ast.keyword):
            before = "\n".join([*lines[:first], lines[first].encode()[: one.col_offset].decode()])
            after = lines[last].encode()[one.end_col_offset :].decode()
            first, kept = 0, (_COMMA.sub("", before) + after).split("\n")
        lines[first : last + 1] = kept
    return "\n".join([*lines, ""])


def _registered_alone(found: Sequence[ast.expr | ast.keyword], name: str) -> list[str]:
    """Return a note on each part that registers the original, and not the class beside it."""
    told = [
        f"{ast.unparse(one)} stands in the header of"
        if isinstance(one, ast.keyword)
        else f"@{ast.unparse(one)} stands above"
        for one in found
    ]
    return [f"{one} {name} alone: a second class would take its name there." for one in told]


def _public(node: ast.ClassDef) -> dict[str, None]:
    found: dict[str, None] = {}
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[statement.name] = None
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            found |= dict.fromkeys(one.id for one in targets(statement) if isinstance(one, ast.Name))
    return {name: None for name in found if not name.startswith("_")}


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
        self.accepted = find_accepted(tree, self.lines)
        self.quote = False
        self.notes: list[str] = []

    def mark(self, digest: str) -> Mark:
        """Return the last line of the comment above the new class."""
        return Mark(self.problem.qualname, digest)

    def beside(self) -> list[LineEdit]:
        """Return the edits for a new class after the original one, or in the place of an earlier proposal's."""
        place = self.place
        inside = place.nested and not self._needs_outer()
        earlier = self._earlier(inside)
        gone = earlier.unused_kernels(self.tree) if earlier is not None else ()
        removed = (*gone, earlier.place.node) if earlier is not None else ()
        anchor = place.node if inside or not place.nested else place.outer
        end = end_with_comments(self.lines, anchor) + 1
        kernels_at = first_line(place.outer) if inside else end
        if earlier is not None and not inside:
            kernels_at = min(first_line(node) for node in removed)
        bindings = self._bindings(removed, kernels_at, inside)
        name = earlier.place.node.name if earlier is not None else self._free_name(bindings, inside)
        qualname = f"{place.prefix}{name}" if inside else name
        plan = self._plan(bindings, qualname, replaced=None)
        edits = [*(cut(self.lines, node) for node in gone), *self._head(plan)]
        indent = indent_of(self.lines[first_line(anchor)])
        room = 1 if inside or indent else 2
        body = self._class_lines(plan, indent)
        if inside:
            edits.extend(self._kernels_before(plan, qualname, place.outer))
        else:
            body = [*self._kernel_lines(plan, qualname, indent, room), *body]
        if earlier is not None:
            return [*edits, LineEdit(earlier.start, earlier.end, tuple(body))]
        after = [""] * room if end < len(self.lines) and self.lines[end].strip() else []
        return [*edits, LineEdit(end, end, (*[""] * room, *body, *after))]

    def replace(self) -> list[LineEdit]:
        """Return the edits for a new class in the place and under the name of the original one."""
        place, node = self.place, self.place.node
        check_comments(self.problem, node, "\n".join(self.lines))
        if place.nested and self._needs_outer():
            raise Fault(
                f"the proposal derives from {place.outer.name} and cannot stand inside it.",
                cure="Write it beside the class.",
                path=self.problem.path,
                line=node.lineno,
            )
        itself = next((found for found in self.accepted if found.place.node is node), None)
        if left_out := _left_out(node, parse(self.pieces.new_class.text).body[0]):
            raise Fault(
                f"the proposal leaves out {', '.join(left_out)} of {node.name}, which other code may use.",
                cure="Write it beside the class.",
                path=self.problem.path,
                line=node.lineno,
            )
        gone = itself.unused_kernels(self.tree) if itself is not None else ()
        removed = gone if place.nested else (*gone, node)
        bindings = self._bindings(removed, min(first_line(part) for part in (*gone, place.outer)), place.nested)
        qualname = f"{place.prefix}{node.name}"
        plan = self._plan(bindings, qualname, replaced=None if place.nested else node.name)
        body = self._class_lines(plan, indent_of(self.lines[first_line(node)]))
        first = itself.start if itself is not None else first_line(node)
        return [
            *(cut(self.lines, part) for part in gone),
            *self._head(plan),
            *self._kernels_before(plan, qualname, place.outer),
            LineEdit(first, last_line(node) + 1, tuple(body)),
        ]

    def _plan(self, bindings: Bindings, qualname: str, *, replaced: str | None) -> InsertionPlan:
        plan = plan_insertion(self.pieces, bindings, {self.candidate.class_name: qualname}, replaced=replaced)
        late = next((piece for piece in plan.inserted if piece.late), None)
        if late is not None:
            raise Fault(
                f"the proposal needs `{late.text.strip().splitlines()[0]}` after its class.",
                cure="Write it to a module of its own.",
                path=self.problem.path,
                line=self.place.node.lineno,
            )
        return plan

    def _earlier(self, inside: bool) -> Accepted | None:
        """Return what an earlier proposal for this class put where the new one goes, if nobody edited it since."""
        around = self.place.parent if inside else None
        wanted = re.compile(re.escape(self.problem.new_name) + r"\d*")
        for found in self.accepted:
            name = found.qualname.rpartition(".")[2]
            here = found.place.parent is around and found.place.block == self.place.block
            if not here or not wanted.fullmatch(name) or found.place.node is self.place.node:
                continue
            if found.mark is None or found.mark.qualname == self.problem.qualname:
                if found.intact:
                    return found
                told = "was edited" if found.mark is not None else "may have been edited"
                self.notes.append(f"{found.qualname} {told} since it was accepted, so it stays as it is.")
        return None

    def _bindings(self, removed: Iterable[ast.stmt], line: int, inside: bool) -> Bindings:
        """Return what names mean without `removed`, seen from a line of the block in which the class stands."""
        removed = list(removed)
        gone = {id(node) for node in removed}
        numbers = {line for node in removed for line in range(first_line(node), last_line(node) + 1)}
        rest = "\n".join(line for number, line in enumerate(self.lines) if number not in numbers)
        statements = without(self.tree.body, gone)
        comparable = without(statements, nested_in(self.tree, self.lines))
        bindings = bindings_of(
            statements, without(self.place.before(line), gone), comparable, frozenset(re.findall(r"\w+", rest))
        )
        self.quote = "annotations" in self.pieces.futures and "annotations" not in bindings.futures
        kept = [node for found in self.accepted for node in found.kernels if id(node) not in gone]
        changed = {name for node in self.tree.body for name in declared_global(node)} if kept else set()
        for node in kept:
            constant = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and not is_shared(node):
                bindings.state |= stored([node]) if not constant else stored([node]) & changed
        # What the class uses of parts that were accepted before is theirs in the candidate too.
        bindings.state -= set(re.findall(r"\w+", self.problem.slice.text))
        if inside and self.place.parent is not None:
            header = self.pieces.new_class.definition.node
            assert isinstance(header, ast.ClassDef)
            now = {name for part in (*header.decorator_list, *header.bases, *header.keywords) for name in reads(part)}
            bindings.hidden |= stored(self.place.parent.body) & now
        return bindings

    def _needs_outer(self) -> bool:
        """Whether the class statement itself, not only its methods, refers to the class around the original."""
        return self.place.outer.name in reads(self.pieces.new_class.definition.node, later=False)

    def _free_name(self, bindings: Bindings, inside: bool) -> str:
        around = stored(self.place.parent.body) if inside and self.place.parent is not None else frozenset()
        name, number = self.problem.new_name, 2
        while name in around if inside else bindings.bound(name):
            name, number = f"{self.problem.new_name}{number}", number + 1
        return name

    def _head(self, plan: InsertionPlan) -> list[LineEdit]:
        """Return the edits for imports."""
        return import_edits(self.tree, self.lines, plan.imports, first_line(self.place.chain[0]))

    def _kernels_before(self, plan: InsertionPlan, qualname: str, statement: ast.stmt) -> list[LineEdit]:
        indent = indent_of(self.lines[first_line(statement)])
        lines = self._kernel_lines(plan, qualname, indent, 1 if indent else 2)
        top = comment_top(self.lines, statement)
        return [LineEdit(top, top, tuple(lines))] if lines else []

    def _kernel_lines(self, plan: InsertionPlan, qualname: str, indent: str, room: int) -> list[str]:
        if not plan.inserted:
            return []
        text = joined([(piece, self._text(piece, plan)) for piece in plan.inserted])
        return [f"{indent}{kernels_comment(qualname)}", *indented(text, indent), *[""] * room]

    def _class_lines(self, plan: InsertionPlan, indent: str) -> list[str]:
        comment = [f"{indent}{line}" for line in (*split_lines(self.comment), str(self.mark(UNKNOWN)))]
        return [*comment, *indented(self._text(self.pieces.new_class, plan), indent)]

    def _text(self, piece: Piece, plan: InsertionPlan) -> str:
        return rename(quoted(piece.text) if self.quote else piece.text, plan.names)
