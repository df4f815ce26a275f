"""What a proposal changes is one step to undo, in real editors, in every write mode.

The edits are those that the server sends, applied by the editors' own functions for a server's edits. Emacs creates no
files in an edit: the server writes a new module there, and no undo takes it back.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from lsprotocol import converters

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.problems import make_problem
from stark_lsp.proposals.edit import build_edit
from stark_lsp.server.client.abilities import ClientFacts
from stark_lsp.server.text.positions import Units, uri_of
from stark_lsp.server.text.workspace_edits import Shape, workspace_edit

NVIM = os.environ.get("STARK_NVIM") or shutil.which("nvim")
EMACS = shutil.which("emacs")
DOCUMENT = (
    '"""Doc."""\n\nimport sys\n\nimport torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n'
    "    def forward(self, x):\n        return x * 2\n\n\ndef get_inputs():\n    return [torch.ones(2)]\n"
)
CANDIDATE = (
    "import ctypes\nimport torch.nn as nn\nimport torch.nn.functional as F\n\nSOURCE = 'kernel'\n\n\n"
    "class ModelNew(nn.Module):\n    def forward(self, x):\n        return F.relu(x), ctypes, SOURCE\n"
)
LUA = """
local function text() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\\n") .. "\\n" end
local edit = vim.fn.json_decode(table.concat(vim.fn.readfile({edit!r}), "\\n"))
local seen = {{ before = vim.fn.filereadable({changed!r}) == 1 and text() or "\\n" }}
vim.lsp.util.apply_workspace_edit(edit, "utf-16")
seen.document = text()
vim.api.nvim_set_current_buf(vim.fn.bufadd({changed!r}))
seen.after = text()
vim.cmd("silent undo")
seen.undone = text()
vim.fn.writefile({{ vim.fn.json_encode(seen) }}, {result!r})
vim.cmd("qa!")
"""
LISP = """
(require 'eglot)
(require 'json)
(let* ((seen nil) (buffer (find-file-noselect {document})))
  (with-current-buffer buffer
    (buffer-enable-undo)
    (push (cons "before" (buffer-string)) seen)
    (undo-boundary)
    (let ((changes (with-temp-buffer
                     (insert-file-contents {edit})
                     (json-parse-buffer :object-type 'plist))))
      (mapc (lambda (change) (eglot--apply-text-edits (plist-get change :edits)))
            (plist-get changes :documentChanges)))
    (undo-boundary)
    (push (cons "after" (buffer-string)) seen)
    (primitive-undo 1 (if (car buffer-undo-list) buffer-undo-list (cdr buffer-undo-list)))
    (push (cons "undone" (buffer-string)) seen))
  (with-temp-file {result} (insert (json-encode seen))))
"""
FACTS = ClientFacts(document_changes=True, create_files=True)


@dataclass(frozen=True)
class Proposed:
    """A document with an accepted proposal, and the server's edit of a second one."""

    document: Path
    edit: Path
    changed: Path
    """What the edit changes: the document or a new file."""
    expected: str
    """Its text after the edit."""


def proposed(folder: Path, mode: WriteMode) -> Proposed:
    document = folder / "net.py"
    problem = make_problem(str(document), DOCUMENT, "Model")
    first = build_edit(problem, DOCUMENT, Candidate(CANDIDATE), "# Optimized by STARK.", WriteMode.BESIDE).preview
    document.write_text(first, encoding="utf-8")
    better = CANDIDATE.replace("ctypes", "json").replace("'kernel'", "'better'")
    edit = build_edit(problem, first, Candidate(better), "# Optimized by STARK.", mode)
    shape = Shape(uri_of(str(document)), 0, first, "STARK")
    sent = workspace_edit(edit, shape, FACTS, Units())
    assert sent is not None
    path = folder / "edit.json"
    path.write_text(json.dumps(converters.get_converter().unstructure(sent)), encoding="utf-8")
    if edit.new_file is not None:
        return Proposed(document, path, Path(edit.new_file.path), edit.new_file.text)
    return Proposed(document, path, document, edit.preview)


def check(result: Path, expected: str) -> dict[str, str]:
    seen = json.loads(result.read_text(encoding="utf-8"))
    assert seen["after"] == expected != seen["before"]
    assert seen["undone"] == seen["before"]
    return dict(seen)


@pytest.mark.parametrize("mode", list(WriteMode))
@pytest.mark.skipif(NVIM is None, reason="Neovim is not installed (Debian: apt install neovim)")
def test_one_undo_takes_a_proposal_back_in_neovim(tmp_path: Path, mode: WriteMode) -> None:
    assert NVIM is not None
    made = proposed(tmp_path, mode)
    result, script = tmp_path / "seen.json", tmp_path / "script.lua"
    script.write_text(LUA.format(edit=str(made.edit), changed=str(made.changed), result=str(result)), encoding="utf-8")
    before = made.document.read_text(encoding="utf-8")
    command = [
        NVIM,
        "--headless",
        "-u",
        "NONE",
        "-i",
        "NONE",
        "-n",
        str(made.document),
        "-c",
        f"luafile {script}",
        "-c",
        "cquit",
    ]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    seen = check(result, made.expected)
    if mode is WriteMode.MODULE:
        assert seen["document"] == before
        # Neovim takes back the text and leaves the file, which is empty.
        assert made.changed.read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("mode", [WriteMode.BESIDE, WriteMode.REPLACE])
def test_one_undo_takes_a_proposal_back_in_emacs(tmp_path: Path, mode: WriteMode) -> None:
    if EMACS is None or subprocess.run([EMACS, "--batch", "--eval", "(require 'eglot)"], check=False).returncode:
        pytest.skip("Emacs with eglot is not installed (Debian: apt install emacs-nox elpa-eglot)")
    made = proposed(tmp_path, mode)
    result, script = tmp_path / "seen.json", tmp_path / "script.el"
    paths = {"document": made.document, "edit": made.edit, "result": result}
    names = {name: json.dumps(str(path)) for name, path in paths.items()}
    script.write_text(LISP.format(**names), encoding="utf-8")
    subprocess.run([EMACS, "--batch", "-l", str(script)], check=True, timeout=60, capture_output=True)
    check(result, made.expected)
