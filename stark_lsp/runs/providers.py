"""What the front end lends a run: the API key, and the editor's own model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stark_lsp.agents.models.secret import ANTHROPIC_KEY, Secret, from_environment

if TYPE_CHECKING:
    from stark_lsp.agents.models.editor import EditorChannel
    from stark_lsp.agents.models.sdk import Agree


@dataclass(frozen=True)
class Providers:
    """Where a run may get what a model needs."""

    key: Callable[[], Awaitable[Secret | None]] | None = None
    """Asks the front end for the key, for instance from the editor's secret storage; None where it keeps none."""
    editor: EditorChannel | None = None
    """The editor's own model, None where the editor lends none."""
    agree: Agree | None = None
    """Asks the user whether a model's SDK may be installed; None where nobody can be asked."""

    async def find_key(self) -> Secret | None:
        """Return the key of the front end, else the environment's, None if there is none.

        Raises
        ------
        BadInput
            What stands in the environment cannot be a key.
        """
        found = None if self.key is None else await self.key()
        return found if found is not None else from_environment(ANTHROPIC_KEY)
