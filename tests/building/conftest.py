"""Builders, and what asks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from building_cases import Builders

from stark_lsp.judge.building.service import BuildService


@pytest.fixture
def builders(tmp_path: Path) -> Iterator[Builders]:
    made = Builders(tmp_path)
    yield made
    made.end()


@pytest.fixture
def service(tmp_path: Path, builders: Builders) -> BuildService:
    return BuildService(builders, str(tmp_path / "cache"), ["here"], jobs=2)


@pytest.fixture
def make_service(builders: Builders) -> Callable[[Path], BuildService]:
    return lambda root: BuildService(builders, str(root), ["here"], jobs=2)
