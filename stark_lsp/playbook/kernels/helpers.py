"""The helper functions that kernels may call, of `prompts/kernels`; those that are called are written into a source."""

from __future__ import annotations

import functools
import re

from stark_lsp.agents.prompts import built_in_dir

_DEFINED = re.compile(r"^(?!//)[^{=]*?\b(_stark_\w+)(?=[\s({])", re.MULTILINE)


def helper_text(body: str, device_type: str) -> str:
    """Return the definitions that a body needs, in order; comments belong to what follows them."""
    cpu = device_type == "cpu"
    shared = _written("both.cpp").replace("static inline", "static inline" if cpu else "__device__ __forceinline__")
    table = shared + _written("cpu.cpp" if cpu else "cuda.cu")
    definitions: list[tuple[str, str]] = []
    lines = ""
    for line in table.splitlines(keepends=True):
        lines += line
        if re.match(r"}|[^/\s#].*}(  //.*)?$", line):
            found = _DEFINED.search(lines)
            assert found is not None
            definitions.append((found[1], lines))
            lines = ""
    needed: set[str] = set()
    todo = [body]
    while todo:
        calls = set(re.findall(r"_stark_\w+", todo.pop())) - needed
        needed |= calls
        todo += [text for name, text in definitions if name in calls]
    return "".join(text for name, text in definitions if name in needed)


@functools.cache
def _written(name: str) -> str:
    """Return what a file in `prompts/kernels` holds below its first comment."""
    return (built_in_dir() / "kernels" / name).read_text(encoding="utf-8").partition("\n\n")[2]
