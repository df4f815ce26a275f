"""What follows an accept: the caret, the call sites, a test; over real stdio, for rich and for poor clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_editor import Editor, everything, neovim, session
from lsprotocol import types

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.classes import find_modules
from stark_lsp.discovery.problems import make_problem
from stark_lsp.proposals.edit import build_edit
from stark_lsp.proposals.kernel_test import kernel_test

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

COMMENT = (
    "# Optimized by STARK: 2.00x the speed of eager PyTorch.\n"
    "# Measured in eval mode on a machine (cpu), float32.\n# Run r, node 3."
)
CANDIDATE = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x * 2
"""
DOCUMENT = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x + x


def get_inputs():
    return [torch.ones(2)]


net = nn.Sequential(Model(), nn.ReLU())
"""
TRAIN = "from model import Model\n\nnet = Model()\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A project in which a proposal for `Model` was accepted."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    path = folder / "model.py"
    problem = make_problem(str(path), DOCUMENT, "Model")
    path.write_text(build_edit(problem, DOCUMENT, Candidate(CANDIDATE), COMMENT, WriteMode.BESIDE).preview)
    (folder / "train.py").write_text(TRAIN)
    (folder / "alias.py").symlink_to(folder / "train.py")
    (folder / "tests" / "test_model.py").write_text(TRAIN)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "copy.py").write_text(TRAIN)
    return path


async def offered(editor: Editor, uri: str, word: str) -> dict[str, types.Command]:
    """Return the commands of the code actions at a word."""
    lines = editor.texts[uri].splitlines()
    row = next(number for number, line in enumerate(lines) if line.startswith(word))
    return {action.title: action.command for action in await editor.actions(uri, row) if action.command is not None}


async def test_call_sites_are_changed_in_a_preview(file: Path, tmp_path: Path) -> None:
    async with session(everything(), tmp_path / "state") as editor:
        uri = editor.open(file)
        train = editor.open(file.with_name("train.py"))
        assert not [title for title in await offered(editor, uri, "class Model(") if "call sites" in title]
        commands = await offered(editor, uri, "class ModelNew")
        await editor.run(commands["Use ModelNew at the call sites of Model"])
        await editor.until(lambda: editor.edits, "the edit")
        edit = editor.edits[0].edit
        (annotation,) = (edit.change_annotations or {}).values()
        assert annotation.needs_confirmation
        assert annotation.label == "Use ModelNew in place of Model"
        changes = edit.document_changes or ()
        assert [one.text_document.uri for one in changes if isinstance(one, types.TextDocumentEdit)] == [uri, train]
        await editor.until(lambda: editor.texts[train] != TRAIN, "the change")
        assert editor.texts[train] == TRAIN.replace("Model", "ModelNew")
        assert "nn.Sequential(ModelNew(), nn.ReLU())" in editor.texts[uri]
        assert editor.texts[uri].count("class Model(nn.Module)") == 1
    assert (file.parent / "tests" / "test_model.py").read_text() == TRAIN


async def test_an_editor_without_previews_is_asked(file: Path, tmp_path: Path) -> None:
    async with session(neovim(), tmp_path / "state") as editor:
        uri = editor.open(file)
        before = editor.texts[uri]
        await editor.execute("stark.useAtCallSites", uri, "ModelNew")
        await editor.until(lambda: editor.questions, "the question")
        assert "Use ModelNew in place of Model in 2 files (model.py:" in editor.questions[0].message
        assert editor.edits == []
        editor.answer = "Replace"
        await editor.execute("stark.useAtCallSites", {"uri": uri, "class": "ModelNew"})
        await editor.until(lambda: editor.texts[uri] != before, "the change")
        assert (await editor.execute("stark.useAtCallSites", uri, "Model"))["status"] == "working"
        await editor.until_message("no class that STARK brought")
        assert (await editor.execute("stark.useAtCallSites"))["status"] == "error"


async def test_a_test_is_written_and_shown(file: Path, tmp_path: Path) -> None:
    async with session(everything(), tmp_path / "state") as editor:
        uri = editor.open(file)
        commands = await offered(editor, uri, "class ModelNew")
        await editor.run(commands["Write a test for ModelNew"])
        await editor.until_message("the test for ModelNew is in")
        path = file.parent / "tests" / "test_model_new_stark.py"
        text = path.read_text() or editor.texts[path.as_uri()]
        assert any(params.uri == path.as_uri() for params in editor.client.shown_documents)
    path.unlink()
    # That it passes is tried in tests/proposals/test_kernel_test.py.
    functions = next(one for one in find_modules(DOCUMENT) if one.qualname == "Model").inputs
    assert text == kernel_test(file, "Model", "ModelNew", functions, device="cpu", mode=".eval()").text


async def test_a_test_is_formatted_with_what_lies_beside_the_interpreter_that_is_set(
    file: Path, tmp_path: Path
) -> None:
    (file.parent / "pyproject.toml").write_text("[tool.black]\n")
    tool = file.parent / ".tools" / "black"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\ncat\n: > "$0.ran"\n')
    tool.chmod(0o755)
    async with session(everything(), tmp_path / "state", {"interpreter": ".tools/python"}) as editor:
        uri = editor.open(file)
        await editor.run((await offered(editor, uri, "class ModelNew"))["Write a test for ModelNew"])
        await editor.until_message("the test for ModelNew is in")
        assert (tool.parent / "black.ran").exists()
