"""Measure the language server from outside, as an editor sees it, and print a table with its bounds.

    python benchmarks/server.py [--device cpu|cuda] [--starts 10] [--requests 300]

The client below speaks raw JSON-RPC over pipes and adds next to nothing to the times. The search that
goes on meanwhile is a real one on a class of a file of 10,000 lines, with the interpreter this runs under,
so torch must be there. The exit code is 1 if a bound was not held. Close other programs first: everything
is wall-clock time.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

HEAD = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        inner = 0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


def get_inputs():
    return [torch.randn(1024, 1024)]


"""
BLOCK = '''class Block{n}(nn.Module):
    """One of many."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = {n}

    def forward(self, x):
        y = self.linear(x)
        for step in range(3):
            y = torch.relu(y) + step * self.scale
        return y


def helper_{n}(values, threshold={n}):
    kept = [value for value in values if value > threshold]
    if not kept:
        return {{"n": {n}, "kept": ()}}
    return {{"n": {n}, "kept": tuple(kept)}}


'''
LINES = 10_000
CLASS_LINE = 4
ANCHOR_LINES = (6, 7)


class Client:
    """A language client that knows just enough."""

    def __init__(self, state: str) -> None:
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stark_lsp", "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "STARK_STATE_DIR": state},
        )
        self.watched = psutil.Process(self.process.pid)
        self.messages: list[str] = []
        self.tokens: list[str] = []
        self.ended = 0
        self.questions = 0
        self._next = 0
        self._answers: dict[int, queue.Queue[Any]] = {}
        self._writing = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, method: str, params: Any, limit_s: float = 120) -> Any:
        """Send a request and wait for its answer."""
        self._next += 1
        answer: queue.Queue[Any] = queue.Queue()
        self._answers[self._next] = answer
        self._send({"id": self._next, "method": method, "params": params})
        message = answer.get(timeout=limit_s)
        if "error" in message:
            raise SystemExit(f"{method}: {message['error']}")
        return message.get("result")

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def initialize(self, settings: dict[str, Any]) -> None:
        """Shake hands as a client with progress and lenses."""
        capabilities = {
            "window": {"workDoneProgress": True, "showMessage": {}},
            "textDocument": {
                "hover": {"contentFormat": ["markdown"]},
                "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["refactor", "quickfix"]}}},
            },
        }
        params = {
            "processId": os.getpid(),
            "rootUri": None,
            "capabilities": capabilities,
            "initializationOptions": {"stark": settings},
        }
        self.ask("initialize", params)

    def leave(self) -> float:
        """Shut down in an orderly way; return the seconds it took."""
        begun = time.perf_counter()
        self.ask("shutdown", None)
        self.tell("exit", None)
        self.process.wait(30)
        return time.perf_counter() - begun

    def below(self) -> list[psutil.Process]:
        """Return all processes below the server."""
        return self.watched.children(recursive=True)

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        with self._writing:
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.process.stdin.flush()

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
            self._take(json.loads(stream.read(size)))

    def _take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self._answers.pop(message["id"]).put(message)
            return
        params = message.get("params") or {}
        if "id" in message:
            self.questions += message["method"] == "window/showMessageRequest"
            self._send({"id": message["id"], "result": None})
        if message["method"] == "window/workDoneProgress/create":
            self.tokens.append(params["token"])
        elif message["method"] == "$/progress":
            self.ended += params["value"]["kind"] == "end"
        elif message["method"] == "window/showMessage":
            self.messages.append(params["message"])


@dataclass
class Row:
    """One line of the table."""

    name: str
    unit: str
    bound: float | None
    """None for a figure that is only shown."""
    samples: list[float] = field(default_factory=list)
    by: str = "p95"
    """Which figure the bound is for: `median`, `p95` or `max`."""

    def figure(self) -> float:
        """Return the figure that the bound is for."""
        if self.by == "median":
            return statistics.median(self.samples)
        return max(self.samples) if self.by == "max" else percentile(self.samples, 95)

    def held(self) -> bool:
        """Whether the bound was held."""
        return bool(self.samples) and (self.bound is None or self.figure() <= self.bound)

    def text(self) -> str:
        """Return the line."""
        if not self.samples:
            return f"| {self.name} | | | | 0 | {self.bound} | not measured |"
        bound = "" if self.bound is None else f"{self.by} ≤ {self.bound:g} {self.unit}"
        verdict = "" if self.bound is None else "yes" if self.held() else "**no**"
        return (
            f"| {self.name} | {statistics.median(self.samples):.1f} {self.unit} | {percentile(self.samples, 95):.1f} "
            f"{self.unit} | {max(self.samples):.1f} {self.unit} | {len(self.samples)} | {bound} | {verdict} |"
        )


def percentile(samples: list[float], rank: float) -> float:
    """Return a percentile, by the nearest-rank method."""
    ordered = sorted(samples)
    return ordered[max(0, -(-len(ordered) * int(rank) // 100) - 1)]


def long_file() -> str:
    """Return a Python file of 10,000 lines with hundreds of modules."""
    parts, count, number = [HEAD], HEAD.count("\n"), 0
    while count + BLOCK.count("\n") <= LINES:
        parts.append(BLOCK.format(n=number))
        count += BLOCK.count("\n")
        number += 1
    return "".join(parts) + "# the end\n" * (LINES - count)


def wait(client: Client, seen: Callable[[], object], what: str, limit_s: float = 120) -> None:
    """Wait until `seen` is true."""
    deadline = time.perf_counter() + limit_s
    while not seen():
        if time.perf_counter() > deadline:
            raise SystemExit(f"never seen: {what}; the server said: {client.messages}")
        time.sleep(0.005)


def measure_starts(state: str, count: int, start: Row, memory: Row, leave: Row) -> None:
    """Start the server again and again; the first start fills the cache of compiled protocol types."""
    for number in range(count + 1):
        client = Client(state)
        client.initialize({})
        seconds = time.perf_counter() - client.begun
        resident = client.watched.memory_info().rss / 2**20
        left = client.leave()
        if number:
            start.samples.append(seconds * 1000)
            memory.samples.append(resident)
            leave.samples.append(left * 1000)


def measure_requests(client: Client, uri: str, count: int, rows: dict[str, Row]) -> None:
    """Ask for hovers, lenses and actions while a search goes on, and for lenses right after an edit."""
    document = {"uri": uri}
    place = {"start": {"line": ANCHOR_LINES[0], "character": 10}, "end": {"line": ANCHOR_LINES[0], "character": 10}}
    version = 1
    ended = client.ended
    for number in range(count):
        if client.ended > ended:
            client.ask("workspace/executeCommand", {"command": "stark.dismiss", "arguments": []})
            _optimize(client, uri)
            ended = client.ended
        asked = [
            ("hover", "textDocument/hover", {"textDocument": document, "position": place["start"]}),
            ("lens", "textDocument/codeLens", {"textDocument": document}),
            (
                "actions",
                "textDocument/codeAction",
                {"textDocument": document, "range": place, "context": {"diagnostics": []}},
            ),
        ]
        if number % 5 == 0:
            version += 1
            end = {"line": LINES - 1, "character": 3}  # inside the comment there
            change = {"range": {"start": end, "end": end}, "text": "x"}
            identifier = {"uri": uri, "version": version}
            client.tell("textDocument/didChange", {"textDocument": identifier, "contentChanges": [change]})
            asked.insert(0, ("lens after an edit", "textDocument/codeLens", {"textDocument": document}))
        for name, method, params in asked:
            begun = time.perf_counter()
            client.ask(method, params)
            rows[name].samples.append((time.perf_counter() - begun) * 1000)
        time.sleep(0.02)


def _optimize(client: Client, uri: str) -> None:
    answer = client.ask("workspace/executeCommand", {"command": "stark.optimize", "arguments": [uri, "Model"]})
    if answer["status"] == "error":
        raise SystemExit(answer["message"])


def _anchored(client: Client, uri: str) -> bool:
    place = {"line": ANCHOR_LINES[0], "character": 10}
    return client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": place}) is not None


def ended(process: psutil.Process) -> bool:
    """Whether a process has ended; one that only waits for its exit code to be read holds nothing any more."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def measure_cancels(client: Client, uri: str, count: int, row: Row) -> None:
    """Cancel a run that is judging a candidate; the time until no process is left below the server."""
    for _ in range(count):
        client.ask("workspace/executeCommand", {"command": "stark.dismiss", "arguments": []})
        wait(client, lambda: all(map(ended, client.below())), "no worker")
        tokens = len(client.tokens)
        _optimize(client, uri)
        wait(client, lambda tokens=tokens: len(client.tokens) > tokens, "progress")
        wait(client, lambda: _anchored(client, uri), "a plan")
        time.sleep(0.3)
        below = client.below()
        begun = time.perf_counter()
        client.tell("window/workDoneProgress/cancel", {"token": client.tokens[-1]})
        wait(client, lambda below=below: all(map(ended, below)), "the end of the worker", 30)
        row.samples.append((time.perf_counter() - begun) * 1000)


def measure_idle(client: Client, seconds: float, row: Row) -> None:
    """Return the share of one core that the server uses while nothing is asked of it."""
    wait(client, lambda: all(map(ended, client.below())), "no worker")
    time.sleep(1)
    before, begun = client.watched.cpu_times(), time.perf_counter()
    time.sleep(seconds)
    after = client.watched.cpu_times()
    used = after.user + after.system - before.user - before.system
    row.samples.append(100 * used / (time.perf_counter() - begun))


def main() -> int:
    """Run the benchmark; return 1 if a bound was not held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--requests", type=int, default=300, help="how often each thing is asked for")
    parser.add_argument("--cancels", type=int, default=3)
    parser.add_argument("--idle", type=float, default=10, help="seconds to watch the idle server")
    options = parser.parse_args()

    start = Row("spawn to `initialize` answered", "ms", 350, by="median")
    memory = Row("resident memory after it", "MiB", 70, by="max")
    leave = Row("`shutdown` and `exit`", "ms", 1000, by="max")
    requests = {
        "hover": Row("hover, 10,000 lines, while a search runs", "ms", 20),
        "lens": Row("lenses, likewise", "ms", 20),
        "actions": Row("code actions, likewise", "ms", 20),
        "lens after an edit": Row("lenses right after an edit, likewise", "ms", 20),
    }
    opened = Row("first lenses of a file of 10,000 lines", "ms", None)
    busy = Row("resident memory after the searches", "MiB", None, by="max")
    cancel = Row("cancel to no process left", "ms", 1000, by="max")
    idle = Row("idle CPU", "%", 0.5, by="max")

    with tempfile.TemporaryDirectory() as folder:
        state = str(Path(folder) / "state")
        measure_starts(state, options.starts, start, memory, leave)
        file = Path(folder) / "model.py"
        file.write_text(long_file())
        client = Client(state)
        client.initialize({"device": options.device, "attempts": 1000, "compileBaseline": False})
        client.tell("initialized", {})
        uri = file.as_uri()
        item = {"uri": uri, "languageId": "python", "version": 1, "text": file.read_text()}
        client.tell("textDocument/didOpen", {"textDocument": item})
        begun = time.perf_counter()
        client.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})  # as every editor does
        opened.samples.append((time.perf_counter() - begun) * 1000)
        _optimize(client, uri)
        wait(client, lambda: _anchored(client, uri), "a plan")
        measure_requests(client, uri, options.requests, requests)
        measure_cancels(client, uri, options.cancels, cancel)
        busy.samples.append(client.watched.memory_info().rss / 2**20)
        measure_idle(client, options.idle, idle)
        client.leave()

    rows = [start, memory, leave, opened, *requests.values(), busy, cancel, idle]
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| what | median | p95 | max | n | bound | held |\n|---|---|---|---|---|---|---|")
    print("\n".join(row.text() for row in rows))
    return 0 if all(row.held() for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
