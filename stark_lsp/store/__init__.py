"""What outlives a process: runs, nodes, verdicts, exchanges with models, steering and rejections, in one SQLite file.

`runs` is the store itself, `exchanges`, `losses` (calls that were paid for nothing) and `steerings` are parts of it;
`notes` is what later runs may learn of earlier ones;
`transcripts` is a run as one file to hand on, `shared_texts` how long texts are written there once;
`texts` keeps long texts once; `schema` holds the tables and how older files are brought up to date;
`database` opens the file and runs transactions; `faults` turns SQLite's errors into words; `owner` tells
whether the process behind a run is still there; `paths` says where all this lives.

Every call is synchronous and may come from any thread; an event loop calls it through `asyncio.to_thread`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stark_lsp.store.runs import RunStore, StoredRun

__all__ = ["RunStore", "StoredRun"]


def __getattr__(name: str) -> Any:
    # Imported at first use: the server asks `paths` whether there is a store without bringing SQLite in.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stark_lsp.store import runs

    return getattr(runs, name)
