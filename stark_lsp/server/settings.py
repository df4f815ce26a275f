"""How settings arrive: with `initialize`, by a pull from the client, or by its notification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from stark_lsp.server.configuration import merged, read

if TYPE_CHECKING:
    from stark_lsp.server.language_server import StarkServer

SECTION = "stark"


def section_of(settings: Any) -> dict[str, Any]:
    """Return the `stark` section of a client's object; an object without one is taken as the section itself."""
    if not isinstance(settings, dict):
        return {}
    section = settings.get(SECTION, settings)
    return section if isinstance(section, dict) else {}


def take(server: StarkServer, section: Any) -> None:
    """Use these settings from now on; running runs keep theirs."""
    server.configuration, problems = read(merged(server.initial, section))
    for hook in server.on_configured:
        hook()
    for problem in problems:
        # A name nobody knows may be meant for another version: only the log is told.
        if problem.startswith("There is no setting"):
            server.log(problem)
        else:
            server.say(f"STARK: {problem}", warning=True)


async def pull(server: StarkServer) -> None:
    """Ask the client for the section."""
    item = types.ConfigurationItem(section=SECTION)
    answer = await server.ask_or(None, types.WORKSPACE_CONFIGURATION, types.ConfigurationParams([item]))
    take(server, answer[0] if isinstance(answer, (list, tuple)) and answer else None)


async def start(server: StarkServer) -> None:
    """Learn the settings after `initialized`, and ask to be told of changes."""
    if server.facts.register_configuration:
        registration = types.Registration(
            "stark-configuration",
            types.WORKSPACE_DID_CHANGE_CONFIGURATION,
            types.DidChangeConfigurationRegistrationOptions(section=SECTION),
        )
        await server.ask_or(None, types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams([registration]))
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
