"""Import much at once: torch makes half a million objects, lsprotocol many too, and none of them is garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage among what is imported in the block, nor later: that takes a fifth of importing torch."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
