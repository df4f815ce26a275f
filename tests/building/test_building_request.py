"""What a request to build may name."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASK = "from stark_lsp.judge.building.request import *; check_flag({flag!r}, default_allowed())"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return an environment whose torch lies outside of it, as with `pip install --user`, and that torch's folder."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch = Path(spec.origin).parent
    folder = tmp_path_factory.mktemp("elsewhere")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "torch.pth").write_text(f"{torch.parent}\n")
    return folder / "bin" / "python", torch


def ask(python: Path, flag: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-c", ASK.format(flag=flag)], cwd=ROOT, capture_output=True, text=True, check=False)


def test_torchs_own_libraries_may_be_linked_wherever_torch_is_installed(elsewhere: tuple[Path, Path]) -> None:
    python, torch = elsewhere
    asked = ask(python, f"{torch}/lib/libgomp.so.1")
    assert asked.returncode == 0, asked.stderr


def test_a_place_that_is_nobodys_package_may_not(elsewhere: tuple[Path, Path]) -> None:
    python, _ = elsewhere
    asked = ask(python, f"{ROOT}/stark_lsp/libmine.so")
    assert asked.returncode != 0
    assert "names a place that builds do not use" in asked.stderr
