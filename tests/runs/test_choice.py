"""Who answers a run: what the user wrote, and what `auto` comes to."""

from __future__ import annotations

from typing import Any

import pytest

from stark_lsp.agents.models.secret import Secret
from stark_lsp.core.errors import BadInput
from stark_lsp.runs.choice import choose, parse
from stark_lsp.runs.providers import Providers


class Channel:
    """An editor that lends a model nobody asks here."""

    async def complete(self, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("nobody asks")


async def lent_key() -> Secret | None:
    return Secret("sk-from-the-editor")


async def no_key() -> Secret | None:
    return None


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


async def chosen(text: str, providers: Providers) -> tuple[str, str]:
    said: list[str] = []
    choice = await choose(text, providers, said.append)
    return choice.label, said[-1]


async def test_auto_is_the_playbook_where_there_is_nothing_else() -> None:
    label, said = await chosen("auto", Providers())
    assert label == "playbook"
    assert said == "Plans and kernels come from the built-in playbook (no key is set; it needs no network)"


async def test_auto_prefers_a_key_and_then_the_editor() -> None:
    assert (await chosen("auto", Providers(no_key, Channel())))[0] == "editor"
    assert (await chosen("auto", Providers(lent_key, Channel())))[0] == "anthropic"


async def test_a_key_in_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-in-the-environment")
    assert (await chosen("auto", Providers()))[0] == "anthropic"
    found = await Providers(lent_key).find_key()
    assert found is not None
    assert found.reveal() == "sk-from-the-editor", "the editor's own goes before the environment's"


async def test_a_token_for_another_server_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    assert (await chosen("auto", Providers()))[0] == "anthropic"


async def test_what_was_named_is_taken_or_refused_with_a_cure() -> None:
    assert (await chosen("anthropic:some-model", Providers(lent_key)))[0] == "anthropic:some-model"
    with pytest.raises(BadInput, match=r"no API key.*ANTHROPIC_API_KEY"):
        await chosen("anthropic", Providers(no_key))
    with pytest.raises(BadInput, match="lends no model"):
        await chosen("editor", Providers(lent_key))


@pytest.mark.parametrize("text", ["", "clause", "playbook:x", "editor:x", "auto:x", "replay", "replay: "])
def test_what_is_no_model_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text)


def test_a_transcript_is_named_by_its_file_alone() -> None:
    choice = parse("replay:/home/someone/secret project/run.json")
    assert choice is not None
    assert choice.label == "replay:run.json"


def test_auto_is_left_open() -> None:
    assert parse(" AUTO ") is None
