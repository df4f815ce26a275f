"""The flow in a real VS Code with the packed extension: each scenario of `tests/editor/vscode/scenarios` is a test.

`tests/editor/vscode/README.md` says what they need; where it is not there, they are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "packing"))

from packed_once import packed

VSCODE = Path(__file__).parent / "vscode"
ROOT = VSCODE.parents[2]
PICTURES = ROOT / ".cache" / "pictures"
HOME = Path(os.environ.get("STARK_VSCODE_HOME") or Path.home() / ".cache" / "stark-vscode-test")
CHROMIUM = os.environ.get("STARK_CHROMIUM", "/usr/bin/chromium")
IN_CI = ("four-clicks",)
"""The way from a click to an accepted kernel."""
SCENARIOS = [
    pytest.param(path.stem, marks=[pytest.mark.ci] if path.stem in IN_CI else [])
    for path in sorted((VSCODE / "scenarios").glob("*.mjs"))
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timing,
    pytest.mark.editor,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not (HOME / "node_modules" / "code-server").is_dir(), reason=f"no code-server in {HOME}"),
    pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=f"no browser: {CHROMIUM}"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="no npm to pack the extension with"),
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Name the state folder that the first scenario which needs one makes, for all of them."""
    return tmp_path_factory.mktemp("earlier") / "state"


@pytest.fixture(scope="module")
def vsix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack the extension."""
    return packed(tmp_path_factory)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_in_vscode(scenario: str, vsix: Path, state: Path) -> None:
    environment = {**os.environ, "STARK_TEST_PYTHON": sys.executable}
    command = ["node", VSCODE / "run.mjs", "--vsix", vsix, "--state", state, "--only", scenario, "--pictures", PICTURES]
    with subprocess.Popen(command, env=environment) as played:
        try:
            assert played.wait() == 0, f"{scenario}: what happened is above"
        finally:
            # Asked, not killed: it ends the editor and the browser that it has started.
            played.terminate()
