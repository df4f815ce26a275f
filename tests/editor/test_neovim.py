"""The flow in real Neovims, headless, with the configuration of docs/editors.md: the one on the PATH and a current one.

`current.sh` fetches the current one. `STARK_NVIM` names another one than that on the PATH.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from project import FEW, NEOVIM, ROOT, block, make_project, run_editor, with_settings

INSTALLED = os.environ.get("STARK_NVIM") or shutil.which("nvim")
CURRENT = ROOT / ".cache" / "neovim" / "nvim"
FLOW = Path(__file__).parent / "neovim" / "flow.lua"


def _lua(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_lua(entry)}' for name, entry in value.items())} }}"
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.fixture(params=["installed", "current"])
def nvim(request: pytest.FixtureRequest) -> str:
    """The program."""
    if request.param == "current":
        if not CURRENT.exists():
            pytest.skip("no current Neovim: tests/editor/current.sh neovim fetches one")
        return str(CURRENT)
    if INSTALLED is None:
        pytest.skip("Neovim is not installed (Debian: apt install neovim)")
    return INSTALLED


@pytest.mark.slow
@pytest.mark.timing
def test_a_neovim_user_optimizes_reads_the_plan_and_accepts(nvim: str, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    settings = ", ".join(f"{name} = {_lua(value)}" for name, value in FEW.items())
    configuration = NEOVIM + with_settings(block("neovim"), 'attempts = 30, device = "auto"', settings)
    init = tmp_path / "init.lua"
    init.write_text(configuration)

    seen = run_editor(
        [nvim, "--headless", "-u", str(init), "-i", "NONE", "-n", str(project.module), "-c", f"luafile {FLOW}"], project
    )

    assert seen["attempts"] == FEW["attempts"]
    assert any("Optimize with STARK" in lens["text"] for lens in seen["lenses"])
    assert "tanh" in seen["diagnostic"]["text"] or "pow" in seen["diagnostic"]["text"]
    assert seen["diagnostic"]["severity"] == 3
    assert "Attempts" in seen["hover"]
    assert "Measured on" in seen["hover"]
    assert seen["action"].startswith("Accept")
    # The edit made during the run and the proposal are both there.
    assert seen["text"].startswith("# a new first line\n")
    assert seen["text"].index("class Model(nn.Module)") < seen["text"].index("class ModelNew(nn.Module)")
    compile(seen["text"], "gelu.py", "exec")
    assert seen["review"].startswith("# STARK proposal for Model")
    assert "+class ModelNew(nn.Module)" in seen["review"]
    # The terminal breaks lines where it is full, after a long path in the midst of a word.
    assert "There is no such file" in seen["judged"].replace("\n", "")
    assert seen["completed"] == ["reject", "report", "resume", "review"]
    assert "class ModelNew" not in seen["undone"]
    assert seen["undone"].startswith("# a new first line\n")
