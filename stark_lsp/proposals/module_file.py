"""A proposal as a file of its own, next to the original one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import Problem
from stark_lsp.discovery.imports import arranged
from stark_lsp.discovery.syntax import check_compiles
from stark_lsp.proposals.bindings import Bindings
from stark_lsp.proposals.insertion import plan_insertion, star_imports
from stark_lsp.proposals.pieces import Pieces, joined
from stark_lsp.proposals.renaming import rename


@dataclass(frozen=True)
class NewFile:
    """A file to create."""

    path: str
    """Absolute path; nothing was there when the edit was built."""
    text: str
    class_name: str
    """The class in it."""


def new_file(problem: Problem, candidate: Candidate, pieces: Pieces, comment: str) -> NewFile:
    """Return `<stem>_<class>_stark.py`, numbered if there is such a file already."""
    taken = {name for piece in pieces.definitions for name in piece.definition.binds}
    name = problem.new_name
    while name in taken and name != candidate.class_name:
        name += "_"
    stars = {module: text for node in pieces.imports for module, text in star_imports(node)}
    plan = plan_insertion(pieces, Bindings(stars=set(stars)), {candidate.class_name: name}, replaced=None)
    futures = dict.fromkeys(pieces.futures)
    head = [f"from __future__ import {', '.join(futures)}", ""] if futures else []
    title = f'"""{name}: {problem.qualname} of {os.path.basename(problem.path)}, optimized by STARK."""'
    title = title.replace("\\", "\\\\")
    parts = [title, "", *head, *arranged([*plan.imports, *stars.values()])]
    body = joined([(piece, rename(piece.text, plan.names)) for piece in plan.inserted if not piece.late])
    room = 1 if plan.inserted and not plan.inserted[0].is_block else 2
    text = "\n".join(parts) + "\n" * (room + 1)
    if body:
        text += body + "\n\n"
    text += comment + "\n" + rename(pieces.new_class.text, plan.names)
    if late := [(piece, rename(piece.text, plan.names)) for piece in plan.inserted if piece.late]:
        text += "\n\n" + joined(late)
    check_compiles(text)
    path = Path(problem.path)
    own = path.with_name(f"{path.stem}_{problem.qualname.replace('.', '_').lower()}_stark.py")
    return NewFile(str(free_path(own)), text, name)


def free_path(path: Path) -> Path:
    """Return the path of a file of Python, numbered if there is something at it already."""
    number, free = 2, path
    while os.path.lexists(free):
        free, number = path.with_name(f"{path.stem}{number}.py"), number + 1
    return free
