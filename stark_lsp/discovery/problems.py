"""A class of a document as a `Problem`: the entry point for a run."""

from __future__ import annotations

import ast
import os

from stark_lsp.core.errors import BadInput, NoInputs
from stark_lsp.core.parsing import PYTHON
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import DeviceChoice, InputSource, Mode
from stark_lsp.discovery.classes import ModuleClass, find_all
from stark_lsp.discovery.notebooks import is_notebook, needed_alone
from stark_lsp.discovery.place import places
from stark_lsp.discovery.slicing import slice_of
from stark_lsp.discovery.syntax import LONGEST, find_class, first_line, last_line, parse
from stark_lsp.discovery.tables import check_tables


def make_problem(
    path: str,
    text: str,
    qualname: str | None,
    *,
    mode: Mode = Mode.EVAL,
    device: DeviceChoice = DeviceChoice.AUTO,
) -> Problem:
    """Return the problem of a class.

    Parameters
    ----------
    text
        The whole document, saved or not; of a notebook, its cells as `notebooks.joined` gives them.
    qualname
        Dotted name of the class, or its last part if that is clear. None picks `Model` if there is one, else the only
        class, else the only one with inputs.

    Raises
    ------
    BadInput
        The text is not Python or too long, there is no such class, more than one could be meant, or it has no inputs.
    """
    path = os.path.abspath(path)
    tree, classes = _read(path, text)
    chosen = _named(path, tree, classes, qualname) if qualname is not None else _only(path, tree, classes)
    functions_make_them = chosen.inputs.source is InputSource.FUNCTIONS
    if not functions_make_them or chosen.inputs.table:
        check_tables(path, chosen.qualname, functions=functions_make_them)
    if chosen.inputs.source is InputSource.NONE:
        raise NoInputs(
            f"the class {chosen.qualname} has no inputs to run it with.",
            cure=_inputs_cure(path, classes, chosen),
            path=path,
            line=chosen.name_line + 1,
        )
    functions = [name for name in (chosen.inputs.inputs_function, chosen.inputs.init_function) if name]
    return Problem(
        path=path,
        qualname=chosen.qualname,
        text=needed_alone(text, chosen.qualname, functions) if is_notebook(path) else text,
        slice=slice_of(tree, text, chosen.qualname),
        class_span=chosen.span,
        inputs=chosen.inputs,
        mode=mode,
        device=device,
    )


def class_named(path: str, text: str, qualname: str) -> ModuleClass:
    """Return the class that somebody names.

    Raises
    ------
    BadInput
        The text is not Python or too long, there is no such class, or more than one could be meant.
    """
    path = os.path.abspath(path)
    return _named(path, *_read(path, text), qualname)


def class_at(path: str, text: str, line: int) -> str:
    """Return the name of the class that somebody with the cursor in a 0-based line means.

    The innermost one around the line, else the nearest above, else the first.

    Raises
    ------
    BadInput
        The text is not Python, there is no module class, or the line is in one that nothing shows to be one.
    """
    path = os.path.abspath(path)
    tree, classes = _read(path, text)
    at = [place for place in places(tree) if first_line(place.node) <= line <= last_line(place.node)]
    around = [found for found in classes if found.span.start <= line <= found.span.end]
    if not around and at and at[-1].node.bases:
        raise _not_seen(path, at[-1].prefix + at[-1].node.name, at[-1].node)
    if not classes:
        raise BadInput("no class of this file derives from torch.nn.Module.", path=path)
    if around:
        return min(around, key=lambda found: found.span.end - found.span.start).qualname
    above = [found for found in classes if found.span.start <= line]
    return (above[-1] if above else classes[0]).qualname


def _read(path: str, text: str) -> tuple[ast.Module, tuple[ModuleClass, ...]]:
    if len(text) > LONGEST:
        cure = "Move the class to a file of its own."
        raise BadInput(f"the file has {len(text):,} characters; at most {LONGEST:,} are read.", cure=cure, path=path)
    try:
        return parse(text), find_all(text, path)
    except SyntaxError as error:
        raise BadInput(
            f"the file is not valid {PYTHON}: {error.msg}.", cure="Mend the line first.", path=path, line=error.lineno
        ) from error


def _inputs_cure(path: str, classes: tuple[ModuleClass, ...], chosen: ModuleClass) -> str:
    alone = sum(found.reachable for found in classes) == 1 or chosen.qualname == "Model"
    function = "get_inputs()" if alone else f"get_inputs_for_{chosen.qualname.replace('.', '_')}()"
    why = "" if alone else ", since get_inputs() could be any class's here"
    return (
        f"Add a function {function} that returns a list of them{why}, or a [[tool.stark.input]] table in "
        f"pyproject.toml; `stark-lsp inputs {os.path.basename(path)}::{chosen.qualname}` finds and writes them."
    )


def _not_seen(path: str, qualname: str, node: ast.ClassDef) -> BadInput:
    """Return what is said of a class that is there, and of which nothing shows that it is a module."""
    named = [base for base in map(ast.unparse, node.bases) if base != "object"]
    bases = ", ".join(named)
    if not bases:
        what, cure = f"the class {qualname} does not derive from torch.nn.Module.", "Name a class that does."
    else:
        which = f"its base {bases}" if len(named) == 1 else f"one of its bases {bases}"
        what = f"nothing in the project's files shows that the class {qualname} is a torch.nn.Module by {which}."
        cure = f"If it is one, say so: class {node.name}({bases}, nn.Module)."
    return BadInput(what, cure=cure, path=path, line=node.lineno)


def _names(classes: tuple[ModuleClass, ...]) -> str:
    return ", ".join(dict.fromkeys(found.qualname for found in classes if found.reachable))


def _named(path: str, tree: ast.Module, classes: tuple[ModuleClass, ...], qualname: str) -> ModuleClass:
    matches = [found for found in classes if found.qualname == qualname]
    if not matches:
        last = [found for found in classes if found.qualname.rpartition(".")[2] == qualname]
        matches = [found for found in last if found.reachable] or last
        if len({found.qualname for found in matches}) > 1:
            raise BadInput(
                f"{qualname} could be any of {_names(tuple(matches))}.", cure="Give the full name.", path=path
            )
    if not matches and (there := find_class(tree, qualname)):
        raise _not_seen(path, qualname, there[-1])
    if not matches:
        known = _names(classes)
        cure = f"Modules in this file: {known}." if known else "No class of this file derives from torch.nn.Module."
        raise BadInput(f"there is no module class {qualname}.", cure=cure, path=path)
    if not matches[0].reachable:
        raise BadInput(
            f"the class {qualname} is defined inside a function.",
            cure="Move it to the module level.",
            path=path,
            line=matches[0].name_line + 1,
        )
    chosen = next((found for found in matches if not found.objection), matches[0])
    if chosen.objection:
        more = "more than once" in chosen.objection
        raise BadInput(
            f"the class {chosen.qualname} {chosen.objection}.",
            cure="Rename one of them." if more else "Move it out from under TYPE_CHECKING.",
            path=path,
            line=chosen.name_line + 1,
        )
    return chosen


def _only(path: str, tree: ast.Module, classes: tuple[ModuleClass, ...]) -> ModuleClass:
    reachable = tuple(found for found in classes if found.reachable)
    if not reachable:
        derived = [place for place in places(tree) if place.node.bases]
        if not classes and len(derived) == 1:
            raise _not_seen(path, derived[0].prefix + derived[0].node.name, derived[0].node)
        inside = ", ".join(found.qualname.rpartition(".")[2] for found in classes)
        cure = f"Move {inside} out of its function." if inside else "Name a file with a class that derives from it."
        raise BadInput("no class of this file derives from torch.nn.Module.", cure=cure, path=path)
    names = list(dict.fromkeys(found.qualname for found in reachable))
    if "Model" in names:
        return _named(path, tree, classes, "Model")
    with_inputs = [found for found in reachable if found.inputs.source is not InputSource.NONE]
    if len(names) > 1 and len(with_inputs) != 1:
        raise BadInput(
            f"the file has several module classes: {_names(reachable)}.",
            cure=f"Say which, for instance {os.path.basename(path)}::{names[-1]}.",
            path=path,
        )
    return _named(path, tree, classes, names[0] if len(names) == 1 else with_inputs[0].qualname)
