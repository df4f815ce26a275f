"""Kernel names: short ones for people, bare ones to find a kernel of a source among those launched."""

from __future__ import annotations

import re

NAME_LIMIT = 200
"""Characters of a name that are kept."""
ARGUMENTS_LIMIT = 60
"""Characters of template arguments that are shown."""
ANONYMOUS = "{anonymous}"
"""What an anonymous namespace is called."""

_COPIES = ("Memcpy", "Memset")
_NAMESPACES = re.compile(r"\b(?:[A-Za-z_]\w*::)+(?=[A-Za-z_])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NESTED = re.compile(r"_ZN[KVr]*")


def cut(text: str, limit: int = NAME_LIMIT) -> str:
    """Return a text without control characters, at most `limit` characters long."""
    line = _CONTROL.sub(" ", text)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def short(name: str) -> str:
    """Return a demangled kernel name without return type, namespaces and parameters.

    `void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int, …)` becomes
    `vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>`.
    """
    name = cut(name, 4000).strip()
    if name.startswith(_COPIES):
        return cut(name)
    if name.startswith("_Z"):
        return cut(_from_mangled(name) or name)
    path, arguments = _signature(name)
    bare = path.rpartition("::")[2]
    if not bare:
        return cut(name)
    if arguments:
        inner = _NAMESPACES.sub("", arguments.replace(f"{ANONYMOUS}::", ""))
        while "> >" in inner:
            inner = inner.replace("> >", ">>")
        bare += f"<{cut(inner, ARGUMENTS_LIMIT)}>"
    return cut(bare)


def base(name: str) -> str:
    """Return the bare function name of a kernel, demangled or not, without template arguments."""
    name = cut(name, 4000).strip()
    if name.startswith(_COPIES):
        return name
    if name.startswith("_Z"):
        found = _from_mangled(name)
        if found:
            return found
    return qualified(name).rpartition("::")[2]


def qualified(name: str) -> str:
    """Return a demangled kernel name with its namespaces, without return type, template arguments and parameters."""
    return _signature(name)[0]


def _signature(name: str) -> tuple[str, str]:
    """Return what `qualified` does, and the template arguments of the function itself, as far as they go."""
    path, arguments, depth, before = "", "", 0, ""
    for sign in name.replace("(anonymous namespace)", ANONYMOUS):
        if sign == "(" and depth == 0:
            break
        closes = sign == ">" and before != "-" and depth > 0
        depth -= closes
        if depth:
            arguments += sign
        elif not closes:
            # What came before are arguments of a namespace, or of the type that is returned.
            arguments = ""
            path += sign if sign != "<" else ""
        depth += sign == "<"
        before = sign
    return path.strip().rpartition(" ")[2], arguments.strip()


def same(defined: str, launched: str) -> bool:
    """Whether a kernel that a source defines is the one that was launched.

    Parameters
    ----------
    defined
        Its name in the source, with or without template arguments.
    launched
        The name the profiler or the compiler reports.
    """
    wanted, found = base(defined), base(launched)
    return bool(wanted) and wanted == found


def mangled_parts(name: str) -> list[str]:
    """Return namespaces and name of a mangled function (Itanium C++ ABI, section 5.1); nothing if unreadable."""
    nested = _NESTED.match(name)
    rest = name[nested.end() if nested else 2 :]
    parts: list[str] = []
    # `L` stands for internal linkage.
    while (nested or not parts) and (digits := re.match(r"L*(\d+)", rest)):
        end = digits.end() + int(digits[1][:6])
        parts.append(rest[digits.end() : end])
        rest = rest[end:]
    return parts


def _from_mangled(name: str) -> str:
    return "".join(mangled_parts(name)[-1:])
