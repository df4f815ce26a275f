"""What builds and loads kernels stands once a file, however many kernels are accepted into it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import KernelPlace, WriteMode
from stark_lsp.discovery.problems import make_problem
from stark_lsp.playbook.kernels import Variant, render
from stark_lsp.playbook.spec import KernelSpec, Operand, Output, Step
from stark_lsp.proposals.edit import ProposalEdit, build_edit

torch = pytest.importorskip("torch")

COMMENT = "# Optimized by STARK: 2.00x the speed of eager PyTorch.\n# Run r, node 3."
DOCUMENT = """import torch
import torch.nn as nn


class First(nn.Module):
    def forward(self, x):
        return torch.tanh(x)


class Second(nn.Module):
    def forward(self, x):
        return torch.exp(x)


def get_inputs_for_First():
    return [torch.randn(8)]


def get_inputs_for_Second():
    return [torch.randn(8)]
"""


def candidate(op: str) -> Candidate:
    spec = KernelSpec(
        f"fused_{op}",
        (8,),
        (Operand("x", "float32", (8,)),),
        (Step("y", op, ("x",), "float32"),),
        (Output("y", "float32"),),
    )
    return Candidate(
        f"{render([(spec, Variant(vector=1), f'_{op}_pytorch')], 'cpu')}\n\n"
        f"def _{op}_pytorch(x):\n    return torch.{op}(x)\n\n\n"
        f"class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return fused_{op}(x)\n"
    )


def accept(text: str, name: str, op: str, path: str = "/project/net.py") -> ProposalEdit:
    return build_edit(make_problem(path, text, name), text, candidate(op), COMMENT, WriteMode.BESIDE)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "built"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def computes(text: str) -> None:
    namespace: dict[str, object] = {"__name__": "edited"}
    exec(compile(text, "edited.py", "exec", dont_inherit=True), namespace)
    x = torch.randn(8)
    for name in ("First", "Second"):
        new, old = namespace[f"{name}New"], namespace[name]
        torch.testing.assert_close(new()(x), old()(x))  # type: ignore[operator]


@pytest.mark.usefixtures("built")
def test_the_second_kernel_of_a_file_uses_what_loads_the_first() -> None:
    once = accept(DOCUMENT, "First", "tanh").preview
    twice = accept(once, "Second", "exp").preview
    for text in (once, twice):
        assert text.count("def _stark_library(") == 1
        assert text.count("_stark_libraries, _stark_lock =") == 1
        assert text.count("import ctypes\n") == 1
    assert len(twice.splitlines()) - len(once.splitlines()) < 70
    computes(twice)


@pytest.mark.usefixtures("built")
def test_what_loads_kernels_stays_as_long_as_one_needs_it() -> None:
    text = accept(accept(DOCUMENT, "First", "tanh").preview, "Second", "exp").preview
    again = accept(text, "First", "sin").preview
    assert "fused_tanh" not in again
    assert again.count("def _stark_library(") == 1
    computes(again.replace("torch.tanh(x)", "torch.sin(x)"))


def test_another_text_under_the_same_name_goes_in_under_another_one() -> None:
    older = accept(DOCUMENT, "First", "tanh").preview.replace("takes g++ and ninja", "needs a compiler")
    text = accept(older, "Second", "exp").preview
    assert text.count("def _stark_library(") == 1
    assert text.count("def _stark_library_stark(") == 1


def package(folder: Path) -> Path:
    (folder / "nets").mkdir(exist_ok=True)
    (folder / "nets" / "__init__.py").write_text("from .model import First\n")
    return folder / "nets" / "model.py"


def accept_in_package(text: str, name: str, op: str, path: Path, opened: str | None = None) -> ProposalEdit:
    problem = make_problem(str(path), text, name)
    return build_edit(problem, text, candidate(op), COMMENT, WriteMode.BESIDE, KernelPlace.PACKAGE, opened)


@pytest.mark.usefixtures("built")
def test_a_package_has_one_file_for_what_its_kernels_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = package(tmp_path)
    first = accept_in_package(DOCUMENT, "First", "tanh", path)
    assert first.shared is not None
    assert first.shared.before is None
    assert Path(first.shared.path) == path.with_name("_stark_kernels.py")
    Path(first.shared.path).write_text(first.shared.text)
    second = accept_in_package(first.preview, "Second", "exp", path)
    assert second.shared is not None
    assert not second.shared.changes
    for text in (first.preview, second.preview):
        assert text.count("from ._stark_kernels import _StarkDifferentiable, _stark_library\n") == 1
        assert "def _stark_library(" not in text
        assert "import threading" not in text
        assert "import ctypes\n" in text
    path.write_text(second.preview)
    monkeypatch.syspath_prepend(str(tmp_path))
    import importlib

    module = importlib.import_module("nets.model")
    x = torch.randn(8)
    for name in ("First", "Second"):
        torch.testing.assert_close(getattr(module, f"{name}New")()(x), getattr(module, name)()(x))


def test_where_it_cannot_be_shared_it_stays_in_the_file(tmp_path: Path) -> None:
    alone = accept_in_package(DOCUMENT, "First", "tanh", tmp_path / "model.py")
    assert alone.shared is None
    assert "def _stark_library(" in alone.preview
    for folder in ("my-nets", "scripts"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("from .model import *" if folder == "my-nets" else "import os")
        assert accept_in_package(DOCUMENT, "First", "tanh", tmp_path / folder / "model.py").shared is None
    (tmp_path / "nets" / "_stark_kernels").mkdir(parents=True)
    assert accept_in_package(DOCUMENT, "First", "tanh", package(tmp_path)).shared is None
    (tmp_path / "nets" / "_stark_kernels").rmdir()
    path = package(tmp_path)
    shared = path.with_name("_stark_kernels.py")
    shared.write_text("def _stark_library(name):\n    return 1\n")
    other = accept_in_package(DOCUMENT, "First", "tanh", path)
    assert other.shared is None
    assert "def _stark_library(" in other.preview
    shared.write_text("import warnings\n\n\ndef mine():\n    return 1\n")
    more = accept_in_package(DOCUMENT, "First", "tanh", path).shared
    assert more is not None
    assert more.text.startswith("import warnings\n\n\ndef mine():\n    return 1\n\n\nimport _thread\n")
    assert more.text.count("import warnings") == 1


def test_what_is_open_of_the_shared_file_counts_and_its_line_ends_stay(tmp_path: Path) -> None:
    path = package(tmp_path)
    first = accept_in_package(DOCUMENT, "First", "tanh", path).shared
    assert first is not None
    path.with_name("_stark_kernels.py").touch()
    second = accept_in_package(DOCUMENT, "Second", "exp", path, opened=first.text).shared
    assert second is not None
    assert not second.changes, "it is in the editor, not yet on the disk"
    mine = "def mine():\r\n    return 1  # not saved"
    third = accept_in_package(DOCUMENT, "Second", "exp", path, opened=mine).shared
    assert third is not None
    assert third.text == mine + third.added
    assert third.added.startswith("\r\n\r\n\r\nimport ")
    assert third.text.count("\n") == third.text.count("\r\n")
    path.with_name("_stark_kernels.py").write_bytes(b"X = 1\r\n")
    fourth = accept_in_package(DOCUMENT, "First", "tanh", path).shared
    assert fourth is not None
    assert (fourth.before, fourth.text.count("\n")) == ("X = 1\r\n", fourth.text.count("\r\n"))
