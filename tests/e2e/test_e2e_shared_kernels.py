"""The file that the kernels of a package share keeps what is not saved in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import stored_runs
from e2e_editor import MODULE, published, session

SETTINGS = {"kernels": "package"}
ON_DISK = "def mine():\n    return 1\n"
UNSAVED = "def above():\n    return 7\n\n\ndef mine():\n    return 42\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "model.py"
    found.write_text(MODULE)
    (tmp_path / "__init__.py").write_text("from .model import *\n")
    (tmp_path / "_stark_kernels.py").write_text(ON_DISK)
    candidate = stored_runs.CANDIDATE.replace("return nn", "return _stark_same(x) and nn").replace(
        "class ", "def _stark_same(x):\n    return x\n\n\nclass "
    )
    monkeypatch.setattr(stored_runs, "CANDIDATE", candidate)
    stored_runs.leave(tmp_path / "state", found, "r1")
    return found


@pytest.mark.parametrize("versions", [True, False])
async def test_what_is_not_saved_in_the_shared_file_stays(versions: bool, file: Path, tmp_path: Path) -> None:
    capabilities = published()
    assert capabilities.workspace is not None
    assert capabilities.workspace.workspace_edit is not None
    capabilities.workspace.workspace_edit.document_changes = versions
    async with session(capabilities, tmp_path / "state", SETTINGS) as editor:
        uri = editor.open(file)
        shared = editor.open(tmp_path / "_stark_kernels.py", UNSAVED)
        await editor.until_question()
        await editor.execute("stark.accept", {"run": "r1"})
        await editor.until_message("was accepted" if versions else "Save it and accept again")
        assert editor.texts[shared].startswith(UNSAVED)
        assert ("def _stark_same(" in editor.texts[shared]) is versions
        assert ("class ModelNew" in editor.texts[uri]) is versions
    assert (tmp_path / "_stark_kernels.py").read_text() == ON_DISK
