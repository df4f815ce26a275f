"""What a coding agent may name: files of the workspace, and runs on them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stark_lsp.cli.runs import listing
from stark_lsp.cli.runs.lookup import ALL, find
from stark_lsp.cli.terminal import documents
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import DeviceChoice, Mode
from stark_lsp.store import RunStore, StoredRun

LARGEST = 10_000_000
"""Bytes of a file that is read."""


@dataclass(frozen=True)
class Workspace:
    """The folder that the server was started for, which is the working directory too."""

    root: Path
    store: RunStore

    def holds(self, path: str) -> bool:
        """Whether a path leads into the workspace, symbolic links followed."""
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.root))

    def problem(self, text: str, device: str) -> Problem:
        """Return the problem of `FILE[::Class]`.

        Raises
        ------
        BadInput
            The file is outside of the workspace, or it or the class cannot be used.
        """
        file, qualname = documents.target(text)
        return documents.problem(self._inside(file), qualname, mode=Mode.EVAL, device=DeviceChoice(device))[1]

    def candidate(self, text: str) -> Candidate:
        """Return the candidate of `FILE[::Class]`, or of a source text, which has more than one line.

        Raises
        ------
        BadInput
            The file is outside of the workspace, or it or the class cannot be used.
        """
        if "\n" in text:
            return Candidate(text)
        file, name = documents.target(text)
        return documents.candidate(self._inside(file), name)[1]

    def run(self, prefix: str) -> StoredRun:
        """Return the run whose id begins so.

        Raises
        ------
        BadInput
            There is none, more than one, or it is on a file outside of the workspace.
        """
        self.store.mark_interrupted()
        stored = self.store.load(find(self.store, prefix).id)
        self._inside(stored.run.problem.path)
        return stored

    def runs(self, limit: int) -> list[dict[str, Any]]:
        """Return the summaries of the newest runs on files of the workspace."""
        self.store.mark_interrupted()
        here = [run for run in self.store.list(limit=ALL) if self.holds(run.problem.path)]
        return [listing.summary(run, self.store) for run in here[:limit]]

    def _inside(self, file: str) -> str:
        if "\0" in file:
            raise BadInput("The name of a file cannot hold a NUL character.", cure="Name a file of the workspace.")
        path = os.path.abspath(file)
        if not self.holds(path):
            raise BadInput(
                f"This is outside of the workspace {self.root}.",
                cure="Name a file in it, or have the user start the server with another --root.",
                path=path,
            )
        try:
            found = os.stat(path)
        except OSError:
            return path  # whoever reads it says what is wrong
        if stat.S_ISDIR(found.st_mode):
            return path
        # Reading a pipe waits for a writer for good, and would keep the server from ending.
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise BadInput("This is no file, or one of more than 10 MB.", cure="Name a Python file.", path=path)
        return path
