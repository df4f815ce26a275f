"""Private folders of children: what the judge hands in, and what the child writes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

from ...contract.scratch import remove_scratch


class Folder:
    """One child's folder, made below `parent`, with `in` (written by the judge) and `out` (written by the child)."""

    def __init__(self, parent: str) -> None:
        self.path = tempfile.mkdtemp(prefix="child-", dir=os.path.realpath(parent))
        self.inside = os.path.join(self.path, "in")
        """What the child may read."""
        self.out = os.path.join(self.path, "out")
        """What the child may write."""
        self.temporary = os.path.join(self.out, "tmp")
        """The child's folder for temporary files."""
        self.triton = os.path.join(self.out, "triton")
        """Where Triton keeps what it compiles."""
        for folder in (self.inside, self.out, self.temporary):
            os.mkdir(folder, 0o700)

    def give(self, path: str, *, link: bool) -> str:
        """Put a file into `in` and return its path there.

        Parameters
        ----------
        link
            Share the file instead of copying it; only for a child that cannot change it.
        """
        place = self.place(path)
        # On another file system, or one without hard links, it is copied.
        with contextlib.suppress(OSError):
            if link:
                os.link(path, place)
                return place
        shutil.copyfile(path, place)
        return place

    def place(self, path: str) -> str:
        """Return where in `in` a file of the judge goes; nothing is there, so nothing that is shared is changed."""
        place = os.path.join(self.inside, os.path.basename(path))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)
        return place

    def write(self, name: str, text: str) -> str:
        """Write a text file into `in` and return its path."""
        place = os.path.join(self.inside, name)
        with open(place, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return place

    def remove(self) -> None:
        """Remove it with all that is in it."""
        remove_scratch(self.path)
