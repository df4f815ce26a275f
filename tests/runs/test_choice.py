"""Who answers a run: what the user wrote, and what `auto` comes to."""

from __future__ import annotations

from typing import Any

import pytest

from stark_lsp.agents.models.secret import Secret
from stark_lsp.core.errors import BadInput
from stark_lsp.runs.choice import ModelChoice, choose, parse
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
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
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


async def test_a_server_of_ones_own_is_named_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    label, said = await chosen("openai:qwen3:8b@http://localhost:11434/v1/", Providers(lent_key))
    assert label == "openai:qwen3:8b@http://localhost:11434/v1"
    assert said == "Plans and kernels come from qwen3:8b at localhost:11434"
    assert parse(label) == ModelChoice("openai", "qwen3:8b", "http://localhost:11434/v1")
    assert parse("openai:qwen/qwen3@20250101") == ModelChoice("openai", "qwen/qwen3@20250101")
    with pytest.raises(BadInput, match=r"no API key for OpenAI.*OPENAI_API_KEY"):
        await chosen("openai:gpt-x", Providers(lent_key))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one")
    assert (await chosen("openai:gpt-x", Providers()))[0] == "openai:gpt-x"
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:11434")
    with pytest.raises(BadInput, match="OPENAI_BASE_URL names no server"):
        await chosen("openai:gpt-x", Providers())
    assert (await chosen("auto", Providers()))[0] == "playbook", "which model is meant is not known"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "localhost:8000")
    with pytest.raises(BadInput, match="ANTHROPIC_BASE_URL names no server"):
        await chosen("anthropic:a-model", Providers(lent_key))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost",
        "localhost:1234/v1",
        "127.0.0.1",
        "10.0.0.7:8000",
        "[::1]:11434/v1",
        "gpu-box:8000/v1",
        "api.example.com/v1",
        "ftp://host/v1",
    ],
)
def test_an_address_without_http_is_refused_and_goes_nowhere(address: str) -> None:
    with pytest.raises(BadInput, match="not one of a server"):
        parse(f"openai:qwen3:8b@{address}")


@pytest.mark.parametrize("name", ["@cf/meta/llama-3.1-8b-instruct", "org/model@v1.2", "claude@20240620", "a@b/c:8b"])
def test_a_name_may_have_an_at_of_its_own(name: str) -> None:
    assert parse(f"openai:{name}") == ModelChoice("openai", name)
    assert parse(f"openai:{name}@HTTP://localhost:8000/v1") == ModelChoice("openai", name, "HTTP://localhost:8000/v1")


@pytest.mark.parametrize(
    "address", ["http://", "http://user:word@host/v1", "http://host/v1?key=word", "http://host:99999/v1", "http://a b"]
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused(address: str) -> None:
    with pytest.raises(BadInput, match="not one of a server") as caught:
        parse(f"openai:qwen3@{address}")
    assert "word" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "openai",
        "openai:",
        "openai:@http://host/v1",
        "",
        "clause",
        "playbook:x",
        "editor:x",
        "auto:x",
        "replay",
        "replay: ",
    ],
)
def test_what_is_no_model_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text)


def test_a_transcript_is_named_by_its_file_alone() -> None:
    choice = parse("replay:/home/someone/secret project/run.json")
    assert choice is not None
    assert choice.label == "replay:run.json"


def test_auto_is_left_open() -> None:
    assert parse(" AUTO ") is None
