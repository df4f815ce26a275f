"""The classes of one open document, from keystroke to keystroke."""

from __future__ import annotations

import hashlib

from stark_lsp.discovery.classes import ModuleClass, find_modules


class DocumentIndex:
    """Keeps the last good result while a document does not parse, and says nothing about it.

    Parameters
    ----------
    path
        Absolute path of the document, or None if it was never saved.
    """

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self.classes: tuple[ModuleClass, ...] = ()
        """The module classes of the last text that parsed."""
        self.valid = True
        """Whether the last text parsed."""
        self._digest: bytes | None = None

    def update(self, text: str) -> tuple[ModuleClass, ...]:
        """Return the classes of `text`, or those of the last text that parsed if this one does not.

        A text that was just seen is not read again; `forget` makes it so, for instance when a
        `pyproject.toml` changed.
        """
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest == self._digest:
            return self.classes
        self._digest = digest
        try:
            self.classes = find_modules(text, self.path)
            self.valid = True
        except SyntaxError:
            self.valid = False
        return self.classes

    def forget(self) -> None:
        """Read the text again at the next update, even if it is the same."""
        self._digest = None
