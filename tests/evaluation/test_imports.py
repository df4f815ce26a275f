"""What is imported at the start of a process is left alone by the collector, and only that."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stark_lsp.contract.imports import uncollected


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_nothing_is_collected_meanwhile_and_what_was_made_is_left_alone_later() -> None:
    before = gc.get_freeze_count()
    with uncollected():
        assert not gc.isenabled()
        made = [[number] for number in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(made)


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ImportError), uncollected():
        raise ImportError("torch")
    assert gc.isenabled()
