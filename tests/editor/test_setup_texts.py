"""What is written about editors agrees with the server: settings, commands, the manifest of the VS Code extension."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from project import DOCS, ROOT, block

from stark_lsp.core.adjust import ADJUSTABLE
from stark_lsp.server.client.configuration import SETTINGS, merged, read, schema
from stark_lsp.server.client.settings import section_of
from stark_lsp.server.features import capturing, lenses, report, steering
from stark_lsp.server.proposals import afterwards

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MANIFEST = json.loads((ROOT / "vscode-client" / "package.json").read_text())
PROPERTIES: dict[str, Any] = {
    name: entry
    for group in MANIFEST["contributes"]["configuration"]
    for name, entry in group["properties"].items()
    if not name.startswith(("stark.server.", "stark.trace."))
}
COMMANDS = {
    lenses.OPTIMIZE,
    lenses.ADD_INPUTS,
    lenses.CANCEL,
    lenses.REVIEW,
    lenses.ACCEPT,
    lenses.REJECT,
    lenses.DISMISS,
    lenses.STATUS,
    afterwards.USE_AT_CALL_SITES,
    afterwards.WRITE_TEST,
    capturing.CAPTURE,
    report.OPEN_REPORT,
    *steering.KINDS,
}


def test_the_extension_offers_exactly_the_servers_settings() -> None:
    assert set(PROPERTIES) == set(schema())


@pytest.mark.parametrize("name", sorted(schema()))
def test_a_setting_means_the_same_in_the_extension_and_the_server(name: str) -> None:
    server, extension = schema()[name], PROPERTIES[name]
    for key in ("type", "default", "enum", "minimum", "maximum", "properties", "additionalProperties"):
        assert extension.get(key) == server.get(key), key
    assert extension.get("description") or extension.get("markdownDescription")
    assert len(extension.get("enum", [])) == len(extension.get("enumDescriptions", []))


def test_settings_that_choose_programs_are_not_taken_from_an_untrusted_folder() -> None:
    trust = MANIFEST["capabilities"]["untrustedWorkspaces"]
    assert trust["supported"] == "limited"
    assert {
        "stark.interpreter",
        "stark.promptsDirectory",
        "stark.server.path",
        "stark.server.interpreter",
        "stark.server.arguments",
    } <= set(trust["restrictedConfigurations"])


def test_a_folder_cannot_switch_isolation_off() -> None:
    # VS Code takes a setting of machine scope from the user's settings alone, trusted folder or not.
    assert PROPERTIES["stark.isolation"]["scope"] == "machine"
    assert "stark.isolation" in MANIFEST["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]


def test_a_folder_cannot_change_limits_and_checks() -> None:
    assert PROPERTIES["stark.evaluation"]["scope"] == "machine"
    assert "stark.evaluation" in MANIFEST["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    assert "isolation" not in PROPERTIES["stark.evaluation"]["properties"]


@pytest.mark.parametrize("name", ["model", "agents", "costLimit", "tokenLimit"])
def test_a_folder_cannot_choose_who_is_paid_and_how_much(name: str) -> None:
    assert PROPERTIES[f"stark.{name}"]["scope"] == "machine"
    assert f"stark.{name}" in MANIFEST["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]


def test_no_setting_holds_a_key_or_the_address_of_a_service() -> None:
    assert not [name for name in PROPERTIES if re.search(r"key|secret|token$|url|address", name, re.IGNORECASE)]


def test_the_docs_list_every_detail_of_judging_as_it_is_declared() -> None:
    text = (ROOT / "docs" / "judge.md").read_text()
    table = text[text.index("<!-- details") : text.index("### Finalists")]
    rows = re.findall(r"^- `(\w+)` \((.*?)\): (.*)$", table, re.MULTILINE)
    assert rows == [(s.name, json.dumps(s.default), s.description.removesuffix(".")) for s in ADJUSTABLE]


def test_the_extension_takes_no_command_name_of_the_server() -> None:
    own = {command["command"] for command in MANIFEST["contributes"]["commands"]}
    assert not own & COMMANDS


def test_the_docs_list_every_setting_with_its_default_and_every_command() -> None:
    text, clients = DOCS.read_text(), (ROOT / "docs" / "clients.md").read_text()
    table = text[text.index("<!-- settings") :]
    rows = dict(re.findall(r"^- `([\w.]+)`(?: \((.*?)\))?: ", table, re.MULTILINE))
    wanted = {s.name: "" if s.default is None else f"`{json.dumps(s.default)}`" for s in SETTINGS}
    assert rows == wanted
    for command in COMMANDS:
        assert f"`{command}`" in clients


def test_the_helix_block_starts_the_server_with_settings_it_understands() -> None:
    languages = tomllib.loads(block("helix"))
    server = languages["language-server"]["stark-lsp"]
    assert [server["command"], *server["args"]] == ["stark-lsp", "serve"]
    assert "stark-lsp" in languages["language"][0]["language-servers"]
    assert read(server["config"]["stark"])[1] == ()


def test_the_zed_block_starts_the_server_with_settings_it_understands() -> None:
    settings = json.loads(block("zed"))
    (lent,) = settings["lsp"]
    server = settings["lsp"][lent]
    assert [server["binary"]["path"], *server["binary"]["arguments"]] == ["stark-lsp", "serve"]
    assert lent in settings["languages"]["Python"]["language_servers"]
    # Zed has no section of ours to be asked for.
    configuration, problems = read(merged(section_of(server["initialization_options"]), None))
    assert (configuration.values["attempts"], problems) == (30, ())
