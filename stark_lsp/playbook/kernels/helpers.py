"""The helper functions a kernel may call; only those that are called are written into its source."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stark_lsp.playbook.kernels import cpu_helpers, cuda_helpers, shared_helpers

_DEFINED = re.compile(r"^(?!//)[^{=]*?\b(_stark_\w+)(?=[\s({])", re.MULTILINE)


def helper_text(used: Iterable[str], device_type: str, body: str) -> str:
    """The definitions of the helper functions in `used` and of those they need, each once; `body` calls them.

    A helper's text may define several functions; those that neither the body nor another helper calls are left out.
    """
    cpu = device_type == "cpu"
    table = {**shared_helpers.HELPERS, **(cpu_helpers.HELPERS if cpu else cuda_helpers.HELPERS)}
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        needs, text = table[name]
        for other in (*needs, *(("exp", "log1p") if cpu and name == "softplus" else ())):
            add(other)
        text = text.replace("{static}", "static inline" if cpu else "__device__ __forceinline__")
        text = text.replace("{exp}", "_stark_exp" if cpu else "expf")
        done[name] = text.replace("{log1p}", "_stark_log1p" if cpu else "log1pf")

    for name in sorted(used):
        add(name)
    return "".join(_called("".join(done.values()), body))


def _called(text: str, body: str) -> list[str]:
    """The definitions of a text that are needed, in order; comments belong to what follows them."""
    definitions: list[str] = []
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        lines.append(line)
        if re.match(r"}|[^/\s#].*}(  //.*)?$", line):
            definitions.append("".join(lines))
            lines = []
    named = [(found.group(1) if (found := _DEFINED.search(text)) else "", text) for text in definitions]
    needed: set[str] = set()
    todo = [body]
    while todo:
        calls = set(re.findall(r"_stark_\w+", todo.pop())) - needed
        needed |= calls
        todo += [text for name, text in named if name in calls]
    return [text for name, text in named if name in needed]
