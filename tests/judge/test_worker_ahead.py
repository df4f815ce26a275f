"""What a waiting process imports ahead, and who leaves bytecode for those that may write none."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from stark_lsp.judge.processes import ahead


def test_only_what_python_would_keep_and_has_not_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "stark_unseen.py").write_text("seen = 1\n")
    assert ahead._uncompiled("stark_unseen")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        assert not ahead._uncompiled("stark_unseen")
    importlib.import_module("stark_unseen")
    assert not ahead._uncompiled("stark_unseen")
    assert not ahead._uncompiled("stark_not_there")
    assert not ahead._uncompiled("sys")
