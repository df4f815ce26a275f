"""Stands in for `torch.utils.cpp_extension.load_inline` and `load` in a candidate's runner.

The stand-ins take what torch's functions of the version at hand take, have the judge build, and return what torch's
functions return. Nothing is compiled in this process.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import os
from collections.abc import Callable
from typing import Any

Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""Sends a request to the judge and returns `{"library": path}` or `{"error": text}`."""


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


class Loader:
    """Has extensions built, loads them, and remembers them.

    Parameters
    ----------
    ask
        How the judge is asked.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._loaded: dict[str, Any] = {}

    def inline(self, given: dict[str, Any]) -> Any:
        """Do what `load_inline` does with these arguments."""
        if given.get("sycl_sources"):
            raise RuntimeError("SYCL sources are not built here.")
        request = self._request(given)
        request["cpp_sources"] = _list(given.get("cpp_sources"))
        request["cuda_sources"] = _list(given.get("cuda_sources"))
        request["functions"] = _functions(given.get("functions"))
        for key, default in (("no_implicit_headers", False), ("with_pytorch_error_handling", True)):
            request[key] = bool(given.get(key, default))
        return self._load(request)

    def files(self, given: dict[str, Any]) -> Any:
        """Refuse what `load` does: a candidate is one file, and those of others cannot be seen from where it runs."""
        raise RuntimeError(f"Error building extension '{given['name']}': from text only, by load_inline.")

    @staticmethod
    def _request(given: dict[str, Any]) -> dict[str, Any]:
        request: dict[str, Any] = {"name": str(given["name"])}
        for key in ("extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_include_paths"):
            request[key] = [str(item).strip() for item in _list(given.get(key))]
        request["with_cuda"] = None if given.get("with_cuda") is None else bool(given["with_cuda"])
        request["is_python_module"] = bool(given.get("is_python_module", True))
        return request

    def _load(self, request: dict[str, Any]) -> Any:
        key = json.dumps(request, sort_keys=True)
        if key not in self._loaded:
            answer = self._ask(request)
            if "library" not in answer:
                raise RuntimeError(str(answer.get("error") or f"Error building extension '{request['name']}'"))
            self._loaded[key] = _open(request["name"], str(answer["library"]), request["is_python_module"])
        return self._loaded[key]


def _open(name: str, path: str, is_python_module: bool) -> Any:
    """Load a built library as torch does: as a Python module, or into the process, which gives its path."""
    if not is_python_module:
        import torch

        torch.ops.load_library(path)
        return path
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
