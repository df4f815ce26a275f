"""How settings arrive: with `initialize`, by a pull from the client, or by its notification."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from stark_lsp.server.client.configuration import merged, read
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.text.positions import path_of

SECTION = "stark"


def section_of(settings: Any) -> dict[str, Any]:
    """Return the `stark` section of a client's object; an object without one is taken as the section itself."""
    if not isinstance(settings, dict):
        return {}
    section = settings.get(SECTION, settings)
    return section if isinstance(section, dict) else {}


def take(server: StarkServer, section: Any, of_folders: dict[str, Any] | None = None) -> None:
    """Use these settings from now on, and for documents in these folders theirs; running runs keep what they have."""
    server.configuration, problems = read(merged(server.initial, section))
    server.of_folders.clear()
    for folder, its in (of_folders or {}).items():
        server.of_folders[folder], more = read(merged(server.initial, its))
        problems += tuple(problem for problem in more if problem not in problems)
    server.configured.set()
    for hook in server.on_configured:
        hook()
    for problem in problems:
        # A name nobody knows may be meant for another version: only the log is told.
        if problem.startswith("There is no setting"):
            server.log(problem)
        else:
            server.say(f"STARK: {problem}", warning=True)


async def pull(server: StarkServer) -> None:
    """Ask the client for the section; where several folders are open, for each of them too."""
    folders = {path: folder.uri for folder in server.workspace.folders.values() if (path := path_of(folder.uri))}
    if len(folders) < 2:
        folders = {}
    items = [types.ConfigurationItem(scope_uri=uri, section=SECTION) for uri in (None, *folders.values())]
    answer = await server.ask_or_none(types.WORKSPACE_CONFIGURATION, types.ConfigurationParams(items))
    if not isinstance(answer, (list, tuple)) and server.configured.is_set():
        return  # What was told before holds on.
    sections = list(answer) if isinstance(answer, (list, tuple)) else []
    sections += [None] * (len(items) - len(sections))
    take(server, sections[0], dict(zip(folders, sections[1:], strict=False)))


async def start(server: StarkServer) -> None:
    """Learn the settings after `initialized`, and ask to be told of changes."""
    if server.facts.register_configuration:
        options = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
        await server.register_later("stark-configuration", types.WORKSPACE_DID_CHANGE_CONFIGURATION, options)
    if server.facts.configuration:
        await pull(server)
    else:
        take(server, None)


def register(server: StarkServer) -> None:
    """Handle `workspace/didChangeConfiguration`."""

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def changed(params: types.DidChangeConfigurationParams) -> None:
        if server.facts.configuration:
            server.spawn(pull(server), "reading the settings")
        else:
            take(server, section_of(params.settings))

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(params: types.DidChangeWorkspaceFoldersParams) -> None:
        if server.facts.configuration:
            server.spawn(pull(server), "reading the settings")
