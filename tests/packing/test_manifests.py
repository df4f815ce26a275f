"""What is packed and released fits together: the lock, the manifests, the words that name files and commands."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import stark_lsp

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "vscode-client"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MANIFEST: dict[str, Any] = json.loads((CLIENT / "package.json").read_text())


def entries(name: str) -> list[str]:
    """Return the entries of a list, hashes included."""
    return re.split(r"\n(?=\S)", (CLIENT / "bundled" / name).read_text().strip())


def locked(name: str) -> list[Requirement]:
    """Return what a list has."""
    return [Requirement(re.sub(r"\\\n|--hash=\S+", "", entry)) for entry in entries(name)]


LISTS = ("requirements.txt", "sdks.txt")
LOCKED = [entry for name in LISTS for entry in locked(name)]
ASKED = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["openai"]]


@pytest.mark.parametrize("needed", [Requirement(text) for text in ASKED], ids=lambda r: r.name)
def test_the_extension_has_every_dependency_in_a_version_that_the_project_allows(needed: Requirement) -> None:
    # Where this fails: make lock.
    locked = next((entry for entry in LOCKED if entry.name == needed.name), None)
    assert locked is not None
    assert needed.specifier.contains(next(iter(locked.specifier)).version)


def test_what_is_unpacked_for_the_oldest_python_is_all_that_any_needs() -> None:
    for entry in locked("requirements.txt"):
        if entry.marker is not None:
            assert entry.marker.evaluate({"python_full_version": "3.10.0"}), entry.name


def test_every_locked_package_has_hashes_and_stands_in_one_list() -> None:
    assert all("--hash=sha256:" in entry for name in LISTS for entry in entries(name))
    assert len({entry.name for entry in LOCKED}) == len(LOCKED)


def test_an_old_python_can_read_why_it_is_refused() -> None:
    ast.parse((CLIENT / "bundled" / "__main__.py").read_text(), feature_version=(3, 6))


def test_extension_and_server_have_one_version() -> None:
    assert MANIFEST["version"] == stark_lsp.__version__
    assert re.search(rf"^## {re.escape(stark_lsp.__version__)}$", (CLIENT / "CHANGELOG.md").read_text(), re.M)


def test_the_manifest_has_what_the_marketplaces_show() -> None:
    assert MANIFEST["pricing"] == "Free"
    assert MANIFEST["license"] == PROJECT["license"]
    assert MANIFEST["galleryBanner"].keys() == {"color", "theme"}
    assert (CLIENT / MANIFEST["icon"]).is_file()
    assert 5 <= len(MANIFEST["keywords"]) <= 30
    for field in ("publisher", "displayName", "description", "categories"):
        assert MANIFEST[field]


def test_the_walkthrough_names_commands_and_pictures_that_there_are() -> None:
    text = json.dumps(MANIFEST["contributes"]["walkthroughs"])
    own = {command["command"] for command in MANIFEST["contributes"]["commands"]}
    # VS Code makes one for each view.
    own |= {f"{view['id']}.focus" for views in MANIFEST["contributes"]["views"].values() for view in views}
    assert set(re.findall(r"(?:command|onCommand):(stark(?:\.\w+)+)", text)) <= own
    for picture in re.findall(r'"media/([^"]+)"', text):
        assert (ROOT / "docs" / "images" / picture).is_file()


def test_every_command_of_the_manifest_is_registered_by_the_extension() -> None:
    sources = "".join(file.read_text() for file in (CLIENT / "src").rglob("*.ts") if "test" not in file.parts)
    registering = r"(registerCommand|asking|passing|withProgram|onItem|onShown)"
    for command in MANIFEST["contributes"]["commands"]:
        assert re.search(rf'{registering}\(\s*"{re.escape(command["command"])}"', sources), command["command"]


def test_menus_and_views_name_commands_and_pictures_that_there_are() -> None:
    contributes = MANIFEST["contributes"]
    own = {command["command"] for command in contributes["commands"]}
    entries = [entry for menu in contributes["menus"].values() for entry in menu]
    assert {entry["command"] for entry in entries} <= own
    for container in contributes["viewsContainers"]["activitybar"]:
        assert (CLIENT / container["icon"]).is_file()
    assert set(re.findall(r"\(command:(stark\.\w+)\)", json.dumps(contributes["viewsWelcome"]))) <= own


def test_the_menu_of_the_view_asks_for_what_the_server_says_can_be_done() -> None:
    # The names in `can` of docs/clients.md, which a test of the server holds true.
    entries = MANIFEST["contributes"]["menus"]["view/item/context"]
    asked = {re.search(r"\^(\w+)\\b\.\*\\b(\w+)", entry["when"]).groups() for entry in entries}  # type: ignore[union-attr]
    run = {"cancel", "pause", "resume", "hint", "original", "report"}
    attempt = {"source", "parent", "original", "verdict", "profile", "plan", "prompts"}
    attempt |= {"accept", "pin", "unpin", "prune", "restore", "hint"}
    assert asked == {("run", name) for name in run} | {("attempt", name) for name in attempt}


def test_settings_are_shown_in_the_order_of_the_manifest() -> None:
    # Without `order` VS Code sorts them by name.
    groups = MANIFEST["contributes"]["configuration"]
    assert [group["order"] for group in groups] == list(range(1, len(groups) + 1))
    for group in groups:
        assert [each.get("order") for each in group["properties"].values()] == list(
            range(1, len(group["properties"]) + 1)
        ), group["title"]


def test_no_command_asks_for_local_files() -> None:
    # The scheme of a file is another one in a remote window.
    assert "Scheme == file" not in json.dumps(MANIFEST["contributes"])


def test_commands_of_the_view_are_not_in_the_palette() -> None:
    hidden = {
        entry["command"] for entry in MANIFEST["contributes"]["menus"]["commandPalette"] if entry["when"] == "false"
    }
    assert hidden == {
        command["command"]
        for command in MANIFEST["contributes"]["commands"]
        if command["command"].startswith("stark.runs.")
    }
