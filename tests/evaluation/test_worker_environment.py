"""What the worker's environment keeps, and what never reaches it; where it may run programs."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_cases import QUICK, REFERENCE, make_problem

from stark_lsp.cli.checks import toolchain
from stark_lsp.core.errors import Fault
from stark_lsp.evaluation.environment import folder_for_programs, worker_environment
from stark_lsp.evaluation.judge import open_judge


def test_what_torch_and_compilers_need_is_kept() -> None:
    needed = {
        "PATH": "/usr/bin",
        "HOME": "/home/me",
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "CUDA_HOME": "/usr/local/cuda",
        "CUDA_VISIBLE_DEVICES": "0",
        "LD_LIBRARY_PATH": "/opt/lib",
        "VIRTUAL_ENV": "/venv",
        "OMP_NUM_THREADS": "4",
        "TORCH_LOGS": "dynamo",
        "TMPDIR": "/tmp",
        "CXX": "clang++",
    }
    assert worker_environment(needed) == needed


def test_secrets_and_everything_unknown_are_left_out() -> None:
    secrets = {
        "ANTHROPIC_API_KEY": "a",
        "GITHUB_TOKEN": "b",
        "AWS_SECRET_ACCESS_KEY": "c",
        "TORCH_HUB_TOKEN": "d",
        "CUDA_PASSWORD": "e",
        "SSH_AUTH_SOCK": "f",
        "HF_TOKEN": "g",
        "MY_OWN": "h",
    }
    assert worker_environment(secrets) == {}


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_nothing_is_added_or_changed(environ: dict[str, str]) -> None:
    assert worker_environment(environ).items() <= environ.items()


@pytest.fixture
def noexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What has the system say that all in a folder is mounted noexec; the one for temporary files is `temporary`."""
    real, temporary = os.statvfs, tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def mount(name: str) -> None:
        beyond = str(tmp_path / name)
        flagged = SimpleNamespace(f_flag=os.ST_NOEXEC)
        monkeypatch.setattr(os, "statvfs", lambda path: flagged if str(path).startswith(beyond) else real(path))

    return mount


async def test_where_no_program_may_run_from_temporary_files_the_state_folder_is_used(
    tmp_path: Path, noexec: Callable[[str], None]
) -> None:
    noexec("temporary")
    judge = await open_judge(
        make_problem(tmp_path, REFERENCE),
        interpreter=sys.executable,
        settings=QUICK,
        cache_dir=tmp_path / "state" / "builds",
        log=lambda line: None,
    )
    used = list((tmp_path / "state").glob("stark-*"))
    await judge.close()
    assert len(used) == 1
    assert not used[0].exists()


def test_where_no_program_may_run_at_all_the_doctor_says_so(
    tmp_path: Path, noexec: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))
    noexec("")
    with pytest.raises(Fault, match="mounted noexec"):
        folder_for_programs(tmp_path / "state")
    assert "Set TMPDIR" in toolchain.compiler().cure
