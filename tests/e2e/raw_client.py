"""A client that sends what it is told, right or wrong, and keeps what comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0


class RawClient:
    """The server over real stdio."""

    def __init__(self, state: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stark_lsp", "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "STARK_STATE_DIR": str(state)},
        )
        self.answers: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        """The answers to each id; those that name none under None."""
        self.told: list[dict[str, Any]] = []
        """Notifications and requests of the server."""
        self._news = threading.Condition()
        self._next = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, body: bytes | dict[str, Any]) -> None:
        """Send a message, framed."""
        if isinstance(body, dict):
            body = json.dumps({"jsonrpc": "2.0", **body}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def number(self) -> int:
        """Return an id that was not used before."""
        self._next += 1
        return self._next

    def ask(self, method: str, params: Any = None, number: Any = None) -> dict[str, Any]:
        """Send a request and return its answer."""
        number = self.number() if number is None else number
        self.send({"id": number, "method": method, "params": params})
        return self.answer(number)

    def tell(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def answer(self, number: Any, count: int = 1) -> dict[str, Any]:
        """Wait for the answer to an id; of `count` answers the last."""
        with self._news:
            arrived = self._news.wait_for(lambda: len(self.answers[number]) >= count, PATIENCE_S)
            assert arrived, f"{len(self.answers[number])} of {count} answers to {number!r}"
            return self.answers[number][-1]

    def until(self, method: str) -> dict[str, Any]:
        """Wait for a notification or request of the server."""
        with self._news:
            assert self._news.wait_for(lambda: any(m["method"] == method for m in self.told), PATIENCE_S), method
            return next(m for m in self.told if m["method"] == method)

    def begin(self, capabilities: dict[str, Any] | None = None, settings: dict[str, Any] | None = None) -> None:
        """Initialize the server."""
        options = {"stark": settings or {}}
        params = {"processId": None, "rootUri": None, "capabilities": capabilities or {}}
        assert "result" in self.ask("initialize", {**params, "initializationOptions": options})
        self.tell("initialized", {})

    def open(self, path: Path, text: str) -> str:
        """Open a document; return its URI."""
        item = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return path.as_uri()

    def change(self, uri: str, version: int, line: int, start: int, end: int, text: str) -> None:
        """Replace a part of a line."""
        places = {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
        document = {"uri": uri, "version": version}
        change = {"range": places, "text": text}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})

    def lenses(self, uri: str) -> list[tuple[int, str]]:
        """Return line and title of each lens."""
        answer = self.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
        return [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in answer["result"]]

    def end(self) -> int:
        """Close the server's input, and return its exit code once all it wrote is read."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            size = 0
            while (header := stream.readline()).strip():
                if header.lower().startswith(b"content-length:"):
                    size = int(header.split(b":")[1])
            if not size:
                return
            message = json.loads(stream.read(size))
            with self._news:
                if "method" in message:
                    self.told.append(message)
                else:
                    self.answers[message["id"]].append(message)
                self._news.notify_all()
