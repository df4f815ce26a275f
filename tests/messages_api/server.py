"""A server with the Messages API and the chat completions API on 127.0.0.1, real HTTP, scriptable.

In a test:

    with MessagesServer([replies.rate_limited("0"), replies.tool({"title": "…"})], key="test-key") as server:
        ...  # server.url, server.requests

What answers is a list of replies, used up in order (the last one stays), or a function of the request, which may also
return a `concurrent.futures.Future` of a reply: the stream then begins at once and is kept alive by pings.

As a command (`benchmarks/standin.py` lets a person or another model answer, by files):

    python tests/messages_api/server.py --port 8765 --script kernels
    ANTHROPIC_BASE_URL=http://127.0.0.1:8765 ANTHROPIC_API_KEY=test-key stark-lsp optimize …
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

if __package__ in (None, ""):  # run as a command
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from messages_api import chat, replies, wire
from messages_api.manners import MODELS, Counter, refuse
from messages_api.replies import Reply

TEST_KEY = "test-key-that-must-not-be-seen"
PATIENCE_S = 0.01
"""How often a waiting answer looks whether the client is still there."""


@dataclass
class Request:
    """One request as it came."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    reply: Reply | None = None
    """What was answered; None as long as nothing was."""
    finished: bool = False
    """Whether the answer was sent to its end; true from right before its last bytes leave."""
    disconnected_at: float | None = None
    """`time.monotonic()` when the client was found to be gone before the end."""
    arrived_at: float = field(default_factory=time.monotonic)

    def finish(self) -> None:
        """Note that the answer was sent to its end."""
        self.finished_at = time.monotonic()
        self.finished = True

    @property
    def model(self) -> str:
        """The model that is asked."""
        return str(self.body.get("model", ""))

    @property
    def tool(self) -> str:
        """Name of the tool that is offered, empty if there is none."""
        tools = self.body.get("tools") or [{}]
        return str(tools[0].get("name") or (tools[0].get("function") or {}).get("name", ""))

    @property
    def chat(self) -> bool:
        """Whether it is one to the chat completions API."""
        return self.path == chat.PATH

    @property
    def text(self) -> str:
        """All that the user's messages say."""
        said = []
        for message in self.body.get("messages") or []:
            content = message.get("content")
            said += [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content or []]
        return "\n".join(said)

    @property
    def results(self) -> list[str]:
        """What tools said so far, in order."""
        said: list[str] = []
        for message in self.body.get("messages") or []:
            content = message.get("content")
            if message.get("role") == "tool":
                said.append(str(content))
            elif isinstance(content, list):
                said += [str(part["content"]) for part in content if part.get("type") == "tool_result"]
        return said


Answerer = Callable[[Request], "Reply | Future[Reply]"]


class MessagesServer:
    """A server with the Messages API.

    Parameters
    ----------
    answer
        What answers `/v1/messages`.
    key
        The key that is asked for, as a bearer token or in `x-api-key`; None takes any.
    models
        Those there are; a question to another one is refused. Empty takes any.
    manners
        Whether to refuse what the real service refuses.
    port
        0 for a free one.
    """

    def __init__(
        self,
        answer: Answerer | Sequence[Reply],
        *,
        key: str | None = TEST_KEY,
        models: tuple[str, ...] = MODELS,
        manners: bool = True,
        port: int = 0,
    ) -> None:
        self._answer = answer if callable(answer) else _in_order(answer)
        self.key = key
        self.models = models
        self.manners = manners
        self.counter = Counter()
        self.everything: list[Request] = []
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """What `ANTHROPIC_BASE_URL` must say."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """The questions so far, in order."""
        with self._lock:
            return [request for request in self.everything if request.path == "/v1/messages" or request.chat]

    def record(self, method: str, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Request:
        """Note a request."""
        named = {name.lower(): value for name, value in headers.items()}
        with self._lock:
            request = Request(len(self.everything) + 1, method, path, named, body)
            self.everything.append(request)
        return request

    def answer(self, request: Request) -> Reply | Future[Reply]:
        """Return what answers a question."""
        if not self.manners:
            return self._answer(request)
        refusal = chat.refuse(request.body) if request.chat else refuse(request.body, request.headers, self.models)
        return refusal or self._answer(request)

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has the key."""
        if self.key is None:
            return True
        return headers.get("authorization") == f"Bearer {self.key}" or headers.get("x-api-key") == self.key

    def start(self) -> MessagesServer:
        """Listen in a thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening; answers under way break off."""
        self._http.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def __enter__(self) -> MessagesServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    owner: MessagesServer

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.closing = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Gone(Exception):
    """The client is no longer there."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Refuse, for the record: nobody is to fetch anything, as a redirect that is followed would."""
        path = urlsplit(self.path).path
        request = self.server.owner.record("GET", path, dict(self.headers.items()), {})
        self._refuse(request, replies.fault(404, "not_found_error", f"Not found: {path}"))

    def do_POST(self) -> None:
        """Answer a question, or count its tokens."""
        owner = self.server.owner
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = urlsplit(self.path).path
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        request = owner.record("POST", path, dict(self.headers.items()), body)
        if not owner.admits(request.headers):
            self._refuse(request, replies.unauthorized())
        elif path == "/v1/messages/count_tokens":
            usage = Counter().count(body, 0)
            self._json(request, 200, {"input_tokens": usage["input_tokens"] + usage["cache_creation_input_tokens"]})
        elif path == "/v1/messages" or request.chat:
            self._answer(request)
        else:
            self._refuse(request, replies.fault(404, "not_found_error", f"Not found: {path}"))

    def _answer(self, request: Request) -> None:
        try:
            reply = self.server.owner.answer(request)
            if isinstance(reply, Future):
                self._later(request, reply)
                return
            request.reply = reply
            self._wait(reply.delay_s)
            if reply.status != 200 or reply.body is not None:
                self._refuse(request, reply)
            elif request.body.get("stream"):
                self._open_stream()
                self._stream(request, reply)
            else:
                self._json(request, 200, wire.message(request, reply, self._usage(request, reply)))
        except (_Gone, ConnectionError):
            if not request.finished:
                request.disconnected_at = time.monotonic()
            self.close_connection = True

    def _later(self, request: Request, promise: Future[Reply]) -> None:
        streamed = bool(request.body.get("stream"))
        if streamed:
            # The message begins with its answer: one that is given up before has cost nothing.
            self._open_stream()
        last_ping = time.monotonic()
        while True:
            try:
                reply = promise.result(timeout=PATIENCE_S)
                break
            except NotYet:
                self._look()
                if streamed and time.monotonic() - last_ping > 10.0:
                    last_ping = time.monotonic()
                    self._event("ping", '{"type": "ping"}')
        request.reply = reply
        if not streamed:
            self._json(request, 200, wire.message(request, reply, self._usage(request, reply)))
        else:
            self._stream(request, reply)

    def _stream(self, request: Request, reply: Reply) -> None:
        if reply.raw is not None:
            self._chunk(reply.raw)
            self._wait(reply.pause_s)
            if reply.cut_after is not None:
                self._break_off()
            else:
                self._chunk(b"")
            return
        events = chat.events if request.chat else wire.events
        for count, (name, data) in enumerate(events(request, reply, self._usage(request, reply))):
            if reply.cut_after is not None and count >= reply.cut_after:
                self._break_off()
                return
            if reply.garbage and count == 2:
                self._event("" if request.chat else "content_block_delta", reply.garbage)
            if reply.pause_before == count:
                self._pause(reply, request)
            if name in ("message_stop", chat.DONE):
                request.finish()
            if name == chat.DONE:
                self._event("", name)
            else:
                self._event(name, json.dumps(data))
            if reply.pause_before is None:
                self._pause(reply, request)
        self._chunk(b"")

    def _pause(self, reply: Reply, request: Request) -> None:
        end = time.monotonic() + reply.pause_s
        while (left := end - time.monotonic()) > 0:
            self._wait(min(left, reply.ping_s))
            if request.chat:
                self._chunk(b": ping\n\n")
            else:
                self._event("ping", '{"type": "ping"}')

    def _usage(self, request: Request, reply: Reply) -> dict[str, int]:
        if reply.usage is not None:
            return reply.usage
        written = len(reply.text) + len(reply.thinking) + len(wire.tool_json(reply) or "")
        return self.server.owner.counter.count(request.body, written)

    def _refuse(self, request: Request, reply: Reply) -> None:
        request.reply = reply
        error = {"type": "error", "error": {"type": reply.error_type, "message": reply.error}, "request_id": "req_test"}
        if reply.body is not None:
            kind = "text/html" if reply.body.startswith("<") else "application/json"
            self._send(request, reply.status, reply.body.encode(), kind, reply.headers)
        else:
            self._json(request, reply.status, error, reply.headers)

    def _json(
        self, request: Request, status: int, value: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        self._send(request, status, json.dumps(value).encode(), "application/json", headers or {})

    def _send(self, request: Request, status: int, body: bytes, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("request-id", f"req_{request.number:04d}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        request.finish()
        self.wfile.write(body)

    def _open_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("request-id", f"req_{len(self.server.owner.everything):04d}")
        self.end_headers()

    def _event(self, name: str, data: str) -> None:
        named = f"event: {name}\n" if name else ""
        self._chunk(f"{named}data: {data}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _break_off(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._look()
            time.sleep(min(left, PATIENCE_S))

    def _look(self) -> None:
        """Raise if the client is gone, or the server is to close."""
        if self.server.closing.is_set():
            raise _Gone
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise _Gone


def _in_order(scripted: Sequence[Reply]) -> Answerer:
    waiting = list(scripted)
    lock = threading.Lock()

    def answer(_: Request) -> Reply:
        with lock:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return answer


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8765, help="0 for a free one")
    parser.add_argument("--key", default="test-key", help="the key that is asked for; empty takes any")
    parser.add_argument("--script", default="kernels", help="`kernels`, or a JSON file with a list of replies")
    parser.add_argument("--any-model", action="store_true", help="take a question to a model of any name")
    options = parser.parse_args()
    if options.script == "kernels":
        from messages_api.kernels import expert

        answer: Any = expert
    else:
        scripted = json.loads(Path(options.script).read_text(encoding="utf-8"))
        answer = [Reply(**entry) for entry in scripted]
    models = () if options.any_model else MODELS
    with MessagesServer(answer, key=options.key or None, port=options.port, models=models) as server:
        print(server.url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
