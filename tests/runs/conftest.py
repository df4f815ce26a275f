"""What runs on a language model need: the test server on the path, and an environment without the developer's own."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from messages_api.replies import Reply
from messages_api.server import TEST_KEY, MessagesServer, Request


@pytest.fixture(autouse=True)
def _no_model_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "STARK_PRICES",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Request], Reply]], MessagesServer]]:
    """Start servers that a run of this test asks, the last one started."""
    opened: list[MessagesServer] = []

    def start(answer: Callable[[Request], Reply]) -> MessagesServer:
        opened.append(MessagesServer(answer).start())
        monkeypatch.setenv("ANTHROPIC_BASE_URL", opened[-1].url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", TEST_KEY)
        return opened[-1]

    yield start
    for server in opened:
        server.close()
