"""What the client on the other side can do, read once from its capabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability


def _at(path: str) -> Any:
    """Declare a fact that one place of the capabilities tells."""
    return field(default=False, metadata={"path": path})


@dataclass(frozen=True)
class ClientFacts:
    """The client's abilities that change how the server speaks to it; the defaults are the poorest client."""

    progress: bool = _at("window.work_done_progress")
    """Shows work-done progress that the server begins."""
    message_actions: bool = _at("window.show_message")
    """Shows messages with buttons."""
    show_document: bool = _at("window.show_document.support")
    """Opens a document when asked."""
    apply_edit: bool = _at("workspace.apply_edit")
    document_changes: bool = _at("workspace.workspace_edit.document_changes")
    """Takes versioned edits."""
    create_files: bool = False
    """Takes edits that create a file."""
    change_annotations: bool = _at("workspace.workspace_edit.change_annotation_support")
    """Shows a label for an edit."""
    lens_refresh: bool = _at("workspace.code_lens.refresh_support")
    """Asks for lenses again when told to."""
    hints: bool = _at("text_document.inlay_hint")
    """Shows inlay hints."""
    register_hints: bool = _at("text_document.inlay_hint.dynamic_registration")
    """Takes the registration of inlay hints later on."""
    hint_refresh: bool = _at("workspace.inlay_hint.refresh_support")
    """Asks for inlay hints again when told to."""
    action_literals: bool = _at("text_document.code_action.code_action_literal_support")
    """Takes code actions with a kind, not only bare commands."""
    resolves_edit: bool = False
    """Asks for the edit of a code action when the user wants to see or make it."""
    pull_diagnostics: bool = False
    """Pulls diagnostics and does so again when told to; otherwise they are published."""
    pull_workspace: bool = False
    """Pulls diagnostics of documents that are not open, too."""
    register_watched_files: bool = _at("workspace.did_change_watched_files.dynamic_registration")
    """Tells of changes of files that it is asked to watch."""
    related_information: bool = False
    """Shows other places with a diagnostic."""
    code_description: bool = False
    """Links the code of a diagnostic."""
    markdown: bool = False
    """Renders Markdown in a hover."""
    configuration: bool = _at("workspace.configuration")
    """Answers `workspace/configuration`."""
    register_configuration: bool = _at("workspace.did_change_configuration.dynamic_registration")
    """Wants `workspace/didChangeConfiguration` to be registered."""


def read_facts(capabilities: types.ClientCapabilities, name: str = "") -> ClientFacts:
    """Read the facts out of the capabilities of `initialize`; anything absent counts as no.

    Parameters
    ----------
    name
        What the client calls itself, for what no capability tells.
    """

    has: Callable[[str], Any] = partial(get_capability, capabilities)

    def of_diagnostics(name: str) -> bool:
        # Said of those that are published; from LSP 3.18 on of those that are pulled, too.
        return bool(has(f"text_document.publish_diagnostics.{name}") or has(f"text_document.diagnostic.{name}"))

    operations = has("workspace.workspace_edit.resource_operations") or ()
    # A client that pulls but cannot be told to pull again would never see what a run finds.
    pulls = has("text_document.diagnostic") is not None and bool(has("workspace.diagnostics.refresh_support"))
    formats = has("text_document.hover.content_format") or ()
    plain = {one.name: bool(has(one.metadata["path"])) for one in fields(ClientFacts) if one.metadata}
    return ClientFacts(
        **plain,
        create_files=types.ResourceOperationKind.Create in operations,
        resolves_edit=bool(has("text_document.code_action.data_support"))
        and "edit" in (has("text_document.code_action.resolve_support.properties") or ()),
        pull_diagnostics=pulls,
        # Neovim 0.12, told to pull again, pulls for the workspace alone, and drops of the answer what is about open
        # buffers.
        pull_workspace=pulls and name != "Neovim",
        related_information=of_diagnostics("related_information"),
        code_description=of_diagnostics("code_description_support"),
        markdown=types.MarkupKind.Markdown in formats,
    )


LENT_KEY, LENT_MODEL, LENT_INPUT, RUNS_VIEW = "key", "model", "input", "runs"
"""What a client may do beyond the protocol: answer `stark/key`; answer `stark/model/describe` and
`stark/model/complete`; ask the user for the text of `stark.hint` when the command comes without one; show runs, and be
told by `stark/runs/changed` when they change."""


def provided(section: dict[str, Any]) -> frozenset[str]:
    """Return what a client does beyond the protocol: `provides` in the section of its initialization options."""
    names = section.get("provides")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
