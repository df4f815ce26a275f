"""The builder: one process, without GPU and network, that carries out one request to build and ends.

It runs torch's own `load_inline` or `load`, so that what is built is what the user's machine would build. Nothing it
builds is ever loaded here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from ...contract.frames import Channel
from ..device import toolkit
from ..processes.serving import serve
from . import quicker

_FUNCTION = re.compile(r"^\s*Function (\S+?):\s*$", re.M)
_FIGURE = re.compile(r"(\w+)(?:\[\d+\])?:(\d+)")
_NAMES = {"REG": "registers", "STACK": "stack_bytes", "SHARED": "shared_bytes", "LOCAL": "local_bytes"}


def main() -> None:
    """Serve the judge until it closes the pipe."""

    def ready(_: Channel) -> Callable[[dict[str, Any]], dict[str, Any]]:
        import torch.utils.cpp_extension  # noqa: F401 - takes most of a builder's start, so it comes first

        commands: dict[str, Callable[..., dict[str, Any]]] = {"build": build, "prepare": prepare}
        return lambda request: commands[request.pop("command")](**request)

    serve(ready)


def build(*, folder: str, request: dict[str, Any], aids: dict[str, str]) -> dict[str, Any]:
    """Build a library and leave it as `out/library.so`.

    Parameters
    ----------
    request
        In the normal form of `request.normal`.

    Returns
    -------
    dict
        `resources` and `loops`, or `error`; `ways` and `log`.
    """
    out = os.path.join(folder, "out")
    place = os.path.join(out, "build")
    os.makedirs(place)
    made = quicker.Build(aids, bool(request["stock"]))

    def carry_out(build_directory: str, verbose: bool, error_prefix: str) -> None:
        failed = made.run(build_directory)
        if failed:
            raise RuntimeError(f"{error_prefix}: {failed}")

    try:
        library = run_torch(request, place, carry_out)
    except (RuntimeError, OSError, ValueError, TypeError, AssertionError, LookupError) as error:
        return {"error": text_of(error, request["name"]), "ways": [step.how for step in made.steps]}
    final = os.path.join(out, "library.so")
    os.replace(library, final)
    return {
        "log": "\n".join(step.log for step in made.steps if step.log),
        "ways": [step.how for step in made.steps],
        "loops": made.loops,
        "resources": kernel_resources(final) if request["cuda_sources"] or request["files"] else {},
    }


def prepare(*, folder: str, what: str, request: dict[str, Any]) -> dict[str, Any]:
    """Make something that speeds builds up, and leave it as `out/aid`.

    Parameters
    ----------
    what
        `support` or `pch`.
    request
        A small request in its normal form, whose flags count.

    Returns
    -------
    dict
        `error`, if it failed.
    """
    place = os.path.join(folder, "out", "build")
    os.makedirs(place)
    aid = os.path.join(folder, "out", "aid")
    failed: list[str] = []

    def carry_out(build_directory: str, verbose: bool, error_prefix: str) -> None:
        failed.append(quicker.prepare(what, build_directory, aid, bool(request["with_cuda"])))

    run_torch(request, place, carry_out)
    return {"error": failed[0][-20000:]} if failed[0] else {}


def text_of(error: BaseException, name: str) -> str:
    """Return what torch's function would have raised; a failed build already says so in its first words."""
    text = str(error)
    return text if text.startswith("Error ") or "CUDA_HOME" in text else f"Error building extension '{name}': {text}"


def run_torch(request: dict[str, Any], place: str, carry_out: Callable[[str, bool, str], None]) -> str:
    """Call torch's own function, and return the path of the library it made.

    It builds in the folder `place`; `carry_out` runs what torch has written for ninja.
    """
    from torch.utils import cpp_extension

    if hasattr(cpp_extension, "_run_ninja_build"):
        cpp_extension._run_ninja_build = carry_out
    # What torch does last is to load the library; here it is only named.
    cpp_extension._import_module_from_library = lambda name, path, *_: os.path.join(path, f"{name}.so")
    common = {
        "name": request["name"],
        "build_directory": place,
        **{key: list(request[key]) for key in ("extra_cflags", "extra_cuda_cflags", "extra_ldflags")},
        "extra_include_paths": list(request["extra_include_paths"]),
        "with_cuda": request["with_cuda"],
        "is_python_module": True,
    }
    if request["kind"] == "files":
        sources = write_files(request["files"], os.path.join(place, "files"))
        folders = sorted({os.path.dirname(path) for path in sources})
        common["extra_include_paths"] = [*common["extra_include_paths"], *folders]
        return str(cpp_extension.load(sources=sources, **common))
    functions = request["functions"]
    options = {
        key: request[key]
        for key in ("no_implicit_headers", "with_pytorch_error_handling")
        # Torch's default is left unsaid: older versions do not know every option.
        if request[key] != (key == "with_pytorch_error_handling")
    }
    return str(
        cpp_extension.load_inline(
            cpp_sources=list(request["cpp_sources"]),
            cuda_sources=list(request["cuda_sources"]) or None,
            functions=None if functions is None else dict(functions),
            **options,
            **common,
        )
    )


def write_files(files: list[dict[str, Any]], place: str) -> list[str]:
    """Write the files of a request, and return the paths of those that are compiled."""
    sources = []
    for item in files:
        path = os.path.join(place, item["path"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(item["text"])
        if item["source"]:
            sources.append(path)
    return sources


def kernel_resources(library: str) -> dict[str, dict[str, int]]:
    """Return what each kernel of a library takes; nothing where the CUDA toolkit's `cuobjdump` is missing."""
    tool = toolkit.find("cuobjdump")
    return read_resources(toolkit.printed([tool, "--dump-resource-usage", library])) if tool else {}


def read_resources(text: str) -> dict[str, dict[str, int]]:
    """Return the figures of each kernel that decide its occupancy, by its mangled name, as `cuobjdump` prints them.

    They are `registers` for each thread, static `shared_bytes` for each block, and `stack_bytes` and `local_bytes`
    for each thread, where spilled registers go.
    """
    found = {}
    _, *parts = _FUNCTION.split(text)
    for name, part in zip(parts[::2], parts[1::2]):
        line = part.strip().split("\n")[0]
        figures = {_NAMES[key]: int(value) for key, value in _FIGURE.findall(line) if key in _NAMES}
        if figures:
            found[name] = figures
    return found
