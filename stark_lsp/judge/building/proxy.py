"""Stands in for `torch.utils.cpp_extension.load_inline` and `load` in a candidate's runner.

The stand-ins take what torch's functions of the version at hand take, have the judge build, and return what torch's
functions return. Nothing is compiled in this process.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..reference.loading import module_at

Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""Sends a request to the judge and returns `{"library": path}` or `{"error": text}`."""

SOURCES = 4 << 20
"""Bytes of source files that are sent."""
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)


def install(ask: Ask) -> None:
    """Replace torch's functions."""
    from torch.utils import cpp_extension

    loader = Loader(ask)
    for name, stand_in in (("load_inline", loader.inline), ("load", loader.files)):
        original = getattr(cpp_extension, name)
        setattr(cpp_extension, name, _like(original, stand_in))


def _like(original: Callable[..., Any], stand_in: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return a function that is called as `original` and hands its arguments to `stand_in` by name."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return stand_in(dict(bound.arguments))

    # `wraps` leaves a way back to torch's own function, which cannot build here.
    del function.__wrapped__  # type: ignore[attr-defined]
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


class DoesNotLoad(BaseException):
    """A library was built and cannot be loaded.

    What goes on with PyTorch after a failed build, for users without a compiler, must not do so here: the kernel is
    judged. Handlers of a `try` are known from the text (`integrity/builds.py`); of builds that fail the judge knows.
    """


@dataclass(eq=False)
class Loader:
    """Has extensions built, loads them, and remembers them."""

    ask: Ask
    """How the judge is asked."""

    def __post_init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def inline(self, given: dict[str, Any]) -> Any:
        """Do what `load_inline` does with these arguments."""
        if given.get("sycl_sources"):
            raise RuntimeError("SYCL sources are not built here.")
        request = self._request("inline", given)
        request["cpp_sources"] = _list(given.get("cpp_sources"))
        request["cuda_sources"] = _list(given.get("cuda_sources"))
        request["functions"] = _functions(given.get("functions"))
        for key, default in (("no_implicit_headers", False), ("with_pytorch_error_handling", True)):
            request[key] = bool(given.get(key, default))
        return self._load(request)

    def files(self, given: dict[str, Any]) -> Any:
        """Do what `load` does with these arguments."""
        if given.get("is_standalone"):
            raise RuntimeError("Standalone programs are not built here.")
        request = self._request("files", given)
        request["files"], folders = gather(_list(given.get("sources")), request["extra_include_paths"])
        request["extra_include_paths"] = folders
        return self._load(request)

    @staticmethod
    def _request(kind: str, given: dict[str, Any]) -> dict[str, Any]:
        request: dict[str, Any] = {"kind": kind, "name": str(given["name"])}
        for key in ("extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_include_paths"):
            request[key] = [str(item).strip() for item in _list(given.get(key))]
        request["with_cuda"] = None if given.get("with_cuda") is None else bool(given["with_cuda"])
        request["is_python_module"] = bool(given.get("is_python_module", True))
        return request

    def _load(self, request: dict[str, Any]) -> Any:
        key = json.dumps(request, sort_keys=True)
        if key not in self._loaded:
            answer = self.ask(request)
            if "library" not in answer:
                raise RuntimeError(str(answer.get("error") or f"Error building extension '{request['name']}'"))
            try:
                self._loaded[key] = _open(request["name"], str(answer["library"]), request["is_python_module"])
            except Exception as error:
                raise DoesNotLoad(f"{type(error).__name__}: {error}") from error
        return self._loaded[key]


def _open(name: str, path: str, is_python_module: bool) -> Any:
    """Load a built library as torch does: as a Python module, or into the process, which gives its path."""
    if not is_python_module:
        import torch

        torch.ops.load_library(path)
        return path
    return module_at(name, path)


def _list(value: Any) -> list[str]:
    """Return one text or several as a list."""
    if value is None:
        return []
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    return [os.fspath(item) for item in value]


def _functions(value: Any) -> list[list[str]] | None:
    """Return the functions to bind as pairs of name and docstring."""
    if value is None:
        return None
    if isinstance(value, str):
        value = [value]
    if isinstance(value, dict):
        return [[str(name), str(text)] for name, text in value.items()]
    if isinstance(value, (list, tuple)):
        return [[str(name), str(name)] for name in value]
    raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(value)}")


def gather(sources: Iterable[str], include_paths: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the texts of source files and of the headers beside them, and the include folders that remain.

    A header counts when a source or another such header names it in quotes and it lies below the folder of a source
    or an include folder of the candidate's own.

    Raises
    ------
    OSError
        A source cannot be read.
    ValueError
        They are too long.
    """
    texts: dict[str, str] = {}
    names: dict[str, str] = {}
    folders: list[str] = []

    def folder_name(folder: str) -> str:
        if folder not in folders:
            folders.append(folder)
        return f"f{folders.index(folder)}"

    def add(path: str, folder: str) -> None:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(SOURCES + 1)
        texts[path] = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        names[path] = f"{folder_name(folder)}/{os.path.relpath(path, folder)}"
        if sum(map(len, texts.values())) > SOURCES:
            raise ValueError(f"the sources are longer than {SOURCES >> 20} MiB")

    roots = [os.path.abspath(path) for path in sources]
    for path in roots:
        add(path, os.path.dirname(path))
    own = [os.path.abspath(path) for path in include_paths]
    queue = list(roots)
    used = set()
    while queue:
        path = queue.pop()
        for name in _INCLUDE.findall(texts[path]):
            for folder in [os.path.dirname(path), *own]:
                found = os.path.normpath(os.path.join(folder, name))
                if not found.startswith(folder + os.sep) or not os.path.isfile(found):
                    continue
                if folder in own:
                    used.add(folder)
                if found not in texts:
                    add(found, next((item for item in folders if found.startswith(item + os.sep)), folder))
                    queue.append(found)
                break
    files = [{"path": names[path], "text": text, "source": path in roots} for path, text in texts.items()]
    return files, [path for path in own if path not in used]
