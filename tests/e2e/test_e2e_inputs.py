"""Add get_inputs and capture, with a real server and its worker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from e2e_editor import heard, published, session
from lsprotocol import types

ATTENTION = """import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v)
"""
NEVER = """import torch


class Never(torch.nn.Module):
    def forward(self, x):
        raise RuntimeError("the moon is not full")
"""
SCRIPT = """import torch
from net import Attention

if __name__ == "__main__":
    for done in range(2000):  # a progress bar writes no end of a line
        print(f"\\rloading {done:5}/2000 |{'#' * 60}|", end="", flush=True)
    net = Attention(32, heads=4)
    x = torch.randn(3, 32, 7).transpose(1, 2)
    while True:
        net.eval()(x)
"""


async def test_inputs_that_run_are_added_and_the_class_can_be_optimized(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(ATTENTION)
    async with session(published(), tmp_path / "state", {"device": "cpu"}) as editor:
        uri = editor.open(file)
        (lens,) = await editor.lenses(uri)
        assert (await editor.run(lens.command))["status"] == "applying"
        editor.type(uri, 0, 0, "# typed while it is tried\n")
        await editor.until(lambda: editor.edits, "the edit")
        await editor.until(editor.progress_ended, "the end of the progress")
        added = editor.texts[uri]
        assert added.startswith("# typed while it is tried\nimport torch\n")
        assert "    return [\n        torch.randn(8, 128, 512),  # x\n    ]\n" in added
        assert "please check" not in added
        assert await editor.titles(uri) == ["Optimize with STARK"]
        assert editor.diagnostics(uri) == []


async def test_inputs_that_do_not_run_carry_a_todo_with_a_diagnostic_and_a_button(tmp_path: Path) -> None:
    file = tmp_path / "never.py"
    file.write_text(NEVER)
    async with session(published(), tmp_path / "state", {"device": "cpu"}) as editor:
        uri = editor.open(file)
        await editor.execute("stark.addInputs", uri, "Never")
        question = await editor.until_question()
        assert question.type is types.MessageType.Warning
        assert "RuntimeError: the moon is not full" in question.message
        assert [action.title for action in question.actions or ()] == ["Capture inputs from a run"]
        await editor.until(lambda: editor.diagnostics(uri), "a diagnostic")
        (found,) = editor.diagnostics(uri)
        line = editor.texts[uri].splitlines()[found.range.start.line]
        assert line == "# TODO: these inputs do not run yet: RuntimeError: the moon is not full"
        assert "the moon is not full" in found.message
        editor.type(uri, found.range.start.line, 0, "", until=(found.range.start.line + 1, 0))
        await editor.until(lambda: not editor.diagnostics(uri), "no diagnostic once the line is gone")


@pytest.mark.slow
@pytest.mark.ci
async def test_what_is_captured_takes_the_place_of_functions_that_do_not_run(tmp_path: Path) -> None:
    functions = "\n\n# TODO: these inputs do not run yet: RuntimeError: no\ndef get_inputs():\n    return [3]\n"
    (tmp_path / "net.py").write_text(ATTENTION + functions)
    (tmp_path / "train.py").write_text(SCRIPT)
    async with session(published(), tmp_path / "state", {"device": "cpu"}) as editor:
        uri = editor.open(tmp_path / "net.py")
        await editor.until(lambda: editor.diagnostics(uri), "the diagnostic of a file that is opened")
        (told,) = editor.diagnostics(uri)
        assert told.message == "These inputs do not run yet: RuntimeError: no. Mend them, then delete this line."
        await editor.execute("stark.captureInputs", uri, "Attention", str(tmp_path / "train.py"))
        await editor.until_message("The inputs of Attention are in stark.toml")
        await editor.until(lambda: editor.texts[uri] == ATTENTION + "\n\n", "the file without the functions")
        await editor.until(lambda: not editor.diagnostics(uri), "no diagnostic")


@pytest.mark.slow
async def test_functions_that_come_before_what_is_captured_are_told(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(f"{ATTENTION}\n\ndef get_inputs():\n    return [3]\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    async with session(published(), tmp_path / "state", {"device": "cpu"}) as editor:
        uri = editor.open(tmp_path / "net.py")
        await editor.execute("stark.captureInputs", uri, "Attention", str(tmp_path / "train.py"))
        said = await editor.until_message("A table for Attention is in stark.toml, but net.py has get_")
        assert said.endswith("get_inputs() (line 17), which comes first; remove it, or the table has no effect.")
        assert (tmp_path / "stark.toml").is_file()


async def test_inputs_are_captured_from_a_script_that_is_offered(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "net.py").write_text(ATTENTION)
    (project / "train.py").write_text(SCRIPT)
    settings = "# my settings\n[tool.black]\nline-length = 90  # wide\n"
    (project / "pyproject.toml").write_text(settings)
    async with session(published(), tmp_path / "state", {"device": "cpu"}) as editor:
        uri = editor.open(project / "net.py")
        (action,) = [one for one in await editor.actions(uri, 5) if "Capture" in one.title]
        editor.answer = "train.py"
        assert action.command is not None
        await editor.execute(action.command.command, {"uri": uri, "line": 5})  # as from the palette
        await editor.until_message("The inputs of Attention are in pyproject.toml")
        text = (project / "pyproject.toml").read_text()
        assert text.startswith(settings)
        assert 'class = "net.py::Attention"\ninit_args = [32]\ninit_kwargs = {heads = 4}\n' in text
        assert 'shape = [3, 7, 32], dtype = "float32", kind = "randn", strides = [224, 1, 7]' in text
        assert await editor.titles(uri) == ["Optimize with STARK"]


async def test_a_table_that_is_written_beside_a_class_is_seen_at_once(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(ATTENTION)
    async with session(published(), tmp_path / "state") as editor:
        told = heard(editor, types.CLIENT_REGISTER_CAPABILITY)
        uri = editor.open(tmp_path / "net.py")
        assert await editor.titles(uri) == ["Add get_inputs for STARK"]
        table = tmp_path / "stark.toml"
        table.write_text(
            '[[stark.input]]\nclass = "net.py::Attention"\ninit_args = [8, 2]\nargs = [{shape = [1, 3, 8]}]\n'
        )

        def watched() -> list[types.Registration]:
            return [each for params in told for each in params.registrations if each.id == "stark-tables"]

        await editor.until(watched, "the registration")
        patterns = [one["globPattern"] for one in watched()[0].register_options["watchers"]]
        assert patterns == ["**/pyproject.toml", "**/stark.toml"]
        created = types.FileEvent(table.as_uri(), types.FileChangeType.Created)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([created]))
        while await editor.titles(uri) != ["Optimize with STARK"]:
            await asyncio.sleep(0.05)
