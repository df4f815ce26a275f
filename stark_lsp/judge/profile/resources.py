"""What the compiler says of each kernel, added to the launches of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import names

Figures = Mapping[str, Mapping[str, Any]]
"""`registers` of a thread, `shared_bytes` of a block, `local_bytes` and `stack_bytes` of a thread; by kernel name,
mangled or not."""


def merge(launches: list[dict[str, Any]], resources: Figures | None) -> list[dict[str, Any]]:
    """Return launches with the compiler's figures where a kernel of that name was compiled.

    Several instances of one template have one bare name: then those of the instance whose registers agree with the
    launch count, or else those of the hungriest.

    Parameters
    ----------
    launches
        `core.Launch`es in wire form; left as they are.
    resources
        Of `cuobjdump --dump-resource-usage`, read by the build.
    """
    compiled: dict[str, list[Mapping[str, Any]]] = {}
    for name, figures in (resources or {}).items():
        if isinstance(name, str) and isinstance(figures, Mapping):
            compiled.setdefault(names.base(name), []).append(figures)
    return [_merged(launch, compiled.get(names.base(launch["name"]), [])) for launch in launches]


def _merged(launch: dict[str, Any], instances: list[Mapping[str, Any]]) -> dict[str, Any]:
    if not instances:
        return launch
    known = launch.get("registers")
    alike = [figures for figures in instances if known is not None and figures.get("registers") == known]
    chosen = max(alike or instances, key=lambda figures: _whole(figures.get("registers")) or 0)
    merged = dict(launch)
    # The driver's own figures stand; shared memory of a launch includes what was asked for at run time.
    figures = {
        "registers": _whole(chosen.get("registers")),
        "shared_bytes": _whole(chosen.get("shared_bytes")),
        "spill_bytes": _spilled(chosen),
    }
    for key, value in figures.items():
        if merged.get(key) is None:
            merged[key] = value
    return merged


def _spilled(figures: Mapping[str, Any]) -> int | None:
    """Return the local memory of a thread: spilled registers lie on its stack, and so do arrays indexed at run time."""
    known = [size for key in ("local_bytes", "stack_bytes") if (size := _whole(figures.get(key))) is not None]
    return max(known) if known else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
