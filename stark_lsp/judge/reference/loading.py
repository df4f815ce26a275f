"""Load the user's module from the text of its document, in its real import context."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import linecache
import operator
import os
import pathlib
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

from ...contract.errors import Bad, blame, describe, full_text, line_in
from ...contract.registering import registering

PROJECT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "stark.toml")


def project_root(path: str) -> str:
    """Return the nearest folder above `path` that looks like a project, else the file's own folder."""
    folders = pathlib.Path(os.path.abspath(path)).parents
    projects = (one for one in folders if any(os.path.exists(one / mark) for mark in PROJECT_MARKS))
    return str(next(projects, folders[0]))


def module_place(path: str) -> tuple[str, str]:
    """Return (dotted module name, folder its top-level package is imported from).

    A file in folders with `__init__.py` belongs to that package; its relative imports then work.
    """
    path = os.path.abspath(path)
    folder, name = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    parts = [] if name == "__init__" else [name]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        parts.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    return ".".join(parts) or name, folder


def extend_sys_path(path: str) -> None:
    """Put the folder the module is imported from, and the project's root, on `sys.path`."""
    _, folder = module_place(path)
    root = project_root(path)
    wanted = [folder, root, os.path.join(root, "src")]
    for entry in reversed([entry for entry in wanted if os.path.isdir(entry)]):
        if entry not in sys.path:
            sys.path.insert(0, entry)


def find_unlisted() -> None:
    """Let modules be imported from folders on the path that may not be listed, as under Landlock.

    Python's own finder lists a folder before it looks for a file in it, and finds nothing where it may not.
    """
    if not any(isinstance(finder, _Unlisted) for finder in sys.meta_path):
        sys.meta_path.append(_Unlisted())


class _Unlisted(importlib.abc.MetaPathFinder):
    """Finds a module by the names that its file may have."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        last = fullname.rpartition(".")[2]
        portions = []
        for folder in sys.path if path is None else path:
            package = os.path.join(folder, last)
            for ending in _ENDINGS:
                inside = os.path.join(package, f"__init__{ending}")
                if os.path.isfile(inside):
                    return importlib.util.spec_from_file_location(
                        fullname, inside, submodule_search_locations=[package]
                    )
                if os.path.isfile(package + ending):
                    return importlib.util.spec_from_file_location(fullname, package + ending)
            if os.path.isdir(package):
                portions.append(package)
        if not portions:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = portions
        return spec


_ENDINGS = (*importlib.machinery.SOURCE_SUFFIXES, *importlib.machinery.EXTENSION_SUFFIXES)


def remember_source(path: str, text: str) -> None:
    """Let tracebacks and `inspect` show `text` for `path`, whatever is on disk.

    An entry without a modification time is never checked against the disk (see `linecache.checkcache`).
    """
    # Not `splitlines`, which breaks at form feeds too: the lines are to be those that Python counts.
    linecache.cache[path] = (len(text), None, io.StringIO(text, newline=None).readlines(), path)


def execute_candidate(path: str, text: str, package: str, place: str) -> types.ModuleType:
    """Run a candidate as a module of its own, with `__file__` set to `place`, and return the module.

    What its package registered may not bear to be registered twice: then the candidate's classes are not.

    Raises
    ------
    BaseException
        Whatever the text raises.
    """
    try:
        return execute("stark_candidate", path, text, package, place)
    except Exception:
        tree = ast.parse(text, path)
        if not _unregister(tree):
            raise
    return execute("stark_candidate", path, text, package, place, tree)


def _unregister(tree: ast.Module) -> bool:
    """Take from classes what registers them; returns whether there was anything."""
    some = False
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            # `@MODELS.register_module()` takes the name of the class, and a candidate has copies of others.
            found = [*registering(node), *(one for one in node.decorator_list if "register" in ast.unparse(one))]
            node.decorator_list = [one for one in node.decorator_list if one not in found]
            node.keywords = [one for one in node.keywords if one not in found]
            some |= bool(found)
    return some


def execute(
    name: str, path: str, text: str, package: str, place: str = "", tree: ast.Module | None = None
) -> types.ModuleType:
    """Run `text` as the module `name` with `__file__` set to `place` or else `path`, and return the module.

    Parameters
    ----------
    tree
        What is run for the text, line by line.

    Raises
    ------
    BaseException
        Whatever the text raises.
    """
    code = compile(tree or text, path, "exec", dont_inherit=True)
    module = types.ModuleType(name)
    module.__file__ = place or path
    module.__package__ = package
    module.__spec__ = importlib.util.spec_from_loader(name, loader=None, origin=path)
    remember_source(path, text)
    # By its file `inspect` finds the source of a class.
    remember_source(module.__file__, text)
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module


class _Served(importlib.abc.InspectLoader, importlib.abc.MetaPathFinder):
    """Gives a module the text of its document, whoever imports it first."""

    def __init__(self, name: str, path: str, text: str) -> None:
        self._name, self._path, self._text = name, path, text

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def get_source(self, fullname: str) -> str:
        return self._text

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(self._text, self._path, "exec", dont_inherit=True)


_BY_PACKAGES: set[str] = set()
"""Documents that their own packages import."""


@contextlib.contextmanager
def serving(path: str, text: str) -> Iterator[None]:
    """Have whoever imports a document in the block be given its text."""
    served = _Served(module_place(path)[0], path, text)
    remember_source(path, text)
    sys.meta_path.insert(0, served)
    try:
        yield
    finally:
        sys.meta_path.remove(served)


def _imported(name: str, path: str, text: str) -> types.ModuleType:
    """Import a module of a package from the text of its document.

    Its package may import it too, and much code does not bear to be executed twice: it registers things by name.
    """
    with serving(path, text):
        importlib.import_module(name.rpartition(".")[0])
        if name in sys.modules:
            _BY_PACKAGES.add(path)
        return importlib.import_module(name)


def by_package(path: str) -> bool:
    """Whether the package of a document that was loaded imports it itself."""
    return path in _BY_PACKAGES


_READ: set[str] = set()
"""What the user's code opened for reading while it was loaded and constructed, as it named it."""
_reading: set[int] = set()
"""Threads that load or construct it."""


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Note which files the user's code reads in the block; a candidate made of it reads them as well."""
    _listen()
    _reading.add(threading.get_ident())
    try:
        yield
    finally:
        _reading.discard(threading.get_ident())


@functools.cache
def _listen() -> None:
    """Have each file that is opened be noted from now on, once: a hook cannot be taken away."""

    def note(event: str, given: tuple[Any, ...]) -> None:
        if event != "open" or threading.get_ident() not in _reading:
            return
        if isinstance(given[0], str) and not int(given[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            _READ.add(given[0])

    sys.addaudithook(note)


def files_read() -> list[str]:
    """Return the files that `reading` noted."""
    return sorted(_READ)


def working_folder() -> str:
    """Return the folder that the user's code reads files by relative paths from; empty where it reads none."""
    return "" if all(map(os.path.isabs, _READ)) else os.getcwd()


def load_document(path: str, text: str) -> types.ModuleType:
    """Load a document (saved or not) as the module it is in its project.

    Raises
    ------
    Bad
        The text does not parse, an import fails, or its top level raises.
    """
    extend_sys_path(path)
    name, _ = module_place(path)
    package = name.rpartition(".")[0]
    if name in getattr(sys, "stdlib_module_names", ()):  # Python 3.9 does not list them
        # A file called `math.py` must not replace the module that others import.
        name = f"stark_document_{name}"
    try:
        # No `__pycache__` is left beside the user's files.
        with mock.patch.object(sys, "dont_write_bytecode", True):
            if package and name not in sys.modules and os.path.basename(path) != "__init__.py":
                return _imported(name, path, text)
            if package:
                importlib.import_module(package)
            return execute(name, path, text, package)
    except SyntaxError as error:
        where = error.filename or path
        raise Bad(f"The file does not parse: {error.msg}.", "Mend the syntax error.", where, error.lineno) from error
    except ImportError as error:
        missing = error.name or ""
        cure = (
            f"Install {missing.partition('.')[0]} for {sys.executable}, or choose the interpreter that has it."
            if missing and isinstance(error, ModuleNotFoundError)
            else "Check the import and what is installed for " + sys.executable + "."
        )
        message = f"An import failed: {describe(error)}."
        raise Bad(message, cure, path, line_in(error, path), full_text(error)) from error
    except MemoryError as error:
        raise blame(error, "Loading the file ran out of memory", "Make the file load with less.", path) from error
    except (Exception, SystemExit) as error:
        cure = "Make the file import cleanly; keep scripts under `if __name__ == '__main__':`."
        raise blame(error, "Loading the file raised", cure, path) from error


def module_at(name: str, path: str) -> types.ModuleType:
    """Load a file as a module of its own, which nobody else imports.

    Raises
    ------
    ImportError
        It is none.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lookup(module: types.ModuleType, qualname: str) -> Any:
    """Return what `qualname` names in `module`, None if there is no such thing."""
    try:
        return operator.attrgetter(qualname)(module)
    except AttributeError:
        return None


def find_class(module: types.ModuleType, path: str, qualname: str, line: int | None) -> type:
    """Return the reference's class.

    Raises
    ------
    Bad
        There is no such class after loading, or it is no `nn.Module`.
    """
    import torch

    found = lookup(module, qualname)
    if not isinstance(found, type):
        cure = "Define it at the top level of the file, outside any condition that is false here."
        raise Bad(f"After loading the file there is no class {qualname}.", cure, path, line)
    if not issubclass(found, torch.nn.Module):
        raise Bad(f"{qualname} is not a torch.nn.Module.", "Derive it from torch.nn.Module.", path, line)
    return found
