"""The test server, and models that ask it with short pauses."""

import functools
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from messages_api.server import TEST_KEY, MessagesServer
from model_cases import HURRIED

from stark_lsp.agents.models.anthropic import AnthropicModel
from stark_lsp.agents.models.features import Features
from stark_lsp.agents.models.openai import OpenAIModel
from stark_lsp.agents.models.secret import Secret


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("STARK_PRICES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="session", autouse=True)
def _one_ssl_context() -> Any:
    """Make what every client of the SDK makes, and none needs here, only once: reading all certificates takes long."""
    patch = pytest.MonkeyPatch()
    patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
    yield
    patch.undo()


@pytest.fixture
def serve() -> Any:
    """Start servers that are closed after the test."""
    started: list[MessagesServer] = []

    def start(answer: Any, **options: Any) -> MessagesServer:
        server = MessagesServer(answer, **options).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.close()


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Callable[..., AnthropicModel]]:
    """Make models that ask a server, closed after the test; what they learn is theirs alone."""
    made: list[AnthropicModel] = []

    def make(server: MessagesServer, **options: Any) -> AnthropicModel:
        settings: dict[str, Any] = {"patience": HURRIED, "features": Features(), "rng": Random(1)}
        key = options.pop("key", Secret(TEST_KEY))
        model = AnthropicModel(key, base_url=server.url, **{**settings, **options})
        made.append(model)
        return model

    yield make
    for model in made:
        await model.close()


@pytest_asyncio.fixture
async def chat(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., OpenAIModel]]:
    """Make models that ask a server by the chat completions API, closed after the test."""
    made: list[OpenAIModel] = []

    def make(server: MessagesServer, name: str = "a-model", **options: Any) -> OpenAIModel:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1/")
        monkeypatch.setenv("OPENAI_API_KEY", TEST_KEY)
        settings: dict[str, Any] = {"patience": HURRIED, "features": Features(), "rng": Random(1)}
        made.append(OpenAIModel(name, **{**settings, **options}))
        return made[-1]

    yield make
    for model in made:
        await model.close()
