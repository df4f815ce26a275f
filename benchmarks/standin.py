"""An endpoint with the Messages API behind which somebody answers who is no HTTP service: a person, or another model.

    python benchmarks/standin.py DIR [--port 8765]                     # serve until interrupted
    python benchmarks/standin.py DIR -- stark-lsp optimize FILE …      # one round of a run, see below

**A question** becomes a folder of `DIR`, such as `0003-submit_plan`: `question.md` to read (system message, messages,
tools), and `request.json` as it came. **Its answer** is a file put there: named after the tool that is called, with
the tool's input (`submit_plan.json`), or `answer.txt` with text. What is awkward in JSON may be a file of its own
beside it, written first: `source.py` or `annotated_source.py` becomes the field of that name. A file that is no JSON
yet is looked at again. What was answered holds `delivered` afterwards. The client is kept waiting by pings, and told
after `--wait` seconds to ask again, which costs it nothing.

**Rounds**, for a machine that has no network, or is lent for minutes only:

1. There, the command is run with the endpoint as its model. Once as many questions wait as the command's own
   `--parallel` has attempts under way, or questions wait and no new one came for `--quiet` seconds (the rest is being
   judged, or the budget has no more), it is stopped by SIGINT. `DIR` and `runs.sqlite3` of the state directory
   (`STARK_STATE_DIR`) are carried away; builds are made anew.
2. Elsewhere the answers are put into `DIR`.
3. There, at the same paths, the same command goes on, and so on until it ends by itself:

    export STARK_STATE_DIR=state
    python benchmarks/standin.py questions -- \
        stark-lsp optimize model.py --resume --model anthropic --parallel 4 --budget 8

A run that was stopped takes up the attempts that were under way, from the same nodes, and asks for what it has no
answer to. The prompt is not quite the same as before: the reference was timed anew, which may bring another lens
along, and other attempts may have ended. So a question is known again by its role (the tool), the node that it starts
from, the plan that is to be carried out, and its place in a conversation; an equal one is preferred, then the oldest.
An answer is handed out once. The exit code is the command's: 130 where a further round is needed.

Tokens are counted as the service would count them, roughly, and when a question is answered: one that was cut off by
the end of a round costs nothing. A transcript of such a run says so of its model, tokens and dollars.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from messages_api.replies import Reply
from messages_api.server import MessagesServer, Request

KEY = "stand-in"
LOOK_EVERY_S = 0.05
SETTLED_S = 2.0
"""So long as many questions as attempts must wait before a round ends."""
_STARTS_FROM = re.compile(r"^(Attempt \d+, made from .*|There is none here yet.*)$", re.MULTILINE)
_BOLD = re.compile(r"\*\*(.+?)\*\*")


class Standin:
    """A folder of questions and answers.

    Parameters
    ----------
    folder
        Made if it is not there.
    wait_s
        How long a question waits for its answer before the client is told to ask again.
    """

    def __init__(self, folder: Path, wait_s: float = 3600.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._open: set[Path] = set()
        self.changed = time.monotonic()
        """When the last question came or was answered."""

    def answer(self, request: Request) -> Future[Reply]:
        """Find the question among those that wait, else write it, and promise its answer."""
        with self._lock:
            place = self._find(request) or self._write(request)
            self._open.add(place)
            self.changed = time.monotonic()
        promise: Future[Reply] = Future()
        threading.Thread(target=self._watch, args=(place, promise, request), daemon=True).start()
        return promise

    def waiting(self) -> list[Path]:
        """The questions under way that nobody has answered yet."""
        with self._lock:
            return sorted(place for place in self._open if _reply(place) is None)

    def _find(self, request: Request) -> Path | None:
        alike = []
        for place in sorted(self._folder.glob("[0-9]*")):
            if place not in self._open and not (place / "delivered").exists():
                before = Request(0, "", "", {}, json.loads((place / "request.json").read_text(encoding="utf-8")))
                if before.text == request.text and before.tool == request.tool:
                    return place
                alike += [place] if _about(before) == _about(request) else []
        return alike[0] if alike else None

    def _write(self, request: Request) -> Path:
        taken = [int(place.name.partition("-")[0]) for place in self._folder.glob("[0-9]*")]
        place = self._folder / f"{max(taken, default=0) + 1:04d}-{request.tool or 'text'}"
        place.mkdir()
        (place / "request.json").write_text(json.dumps(request.body, indent=1), encoding="utf-8")
        (place / "question.md").write_text(_readable(request.body), encoding="utf-8")
        return place

    def _watch(self, place: Path, promise: Future[Reply], request: Request) -> None:
        end = time.monotonic() + self._wait_s
        reply = None
        while reply is None and request.disconnected_at is None and time.monotonic() < end:
            time.sleep(LOOK_EVERY_S)
            reply = _reply(place)
        if request.disconnected_at is None:
            promise.set_result(reply or Reply(stream_error=("overloaded_error", "Nobody answered yet"), usage={}))
        while reply is not None and request.disconnected_at is None:
            if request.finished:
                (place / "delivered").touch()
                break
            time.sleep(LOOK_EVERY_S)
        with self._lock:
            self._open.discard(place)
            self.changed = time.monotonic()


def _about(request: Request) -> tuple[object, ...]:
    """What tells a question from others whatever was measured meanwhile."""
    _, _, latest = request.text.partition("\n# The attempt you start from\n")
    _, _, task = request.text.rpartition("\n# Your task\n")
    starts_from = _STARTS_FROM.search(latest)
    again = "what you have just handed in" in task or "You have answered this already" in task
    turns = len(request.body.get("messages") or ())
    planned = () if request.tool == "submit_plan" else tuple(_BOLD.findall(task))
    return request.tool, turns, again, starts_from and starts_from[0], planned


def _reply(place: Path) -> Reply | None:
    """Return the answer that was put into a folder, None as long as it is not whole."""
    if (place / "answer.txt").exists():
        return Reply(text=(place / "answer.txt").read_text(encoding="utf-8"))
    for path in place.glob("*.json"):
        if path.name != "request.json":
            try:
                given = json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                return None
            fields = {field.stem: field.read_text(encoding="utf-8") for field in place.glob("*.py")}
            return Reply(tool_input={**given, **fields}, tool_name=path.stem)
    return None


def _readable(body: dict[str, Any]) -> str:
    said: list[str] = []
    for head, content in [("system", body.get("system")), *((m["role"], m["content"]) for m in body["messages"])]:
        parts = [{"text": content}] if isinstance(content, str) else content or []
        texts = [part.get("text") or str(part.get("content") or json.dumps(part.get("input"))) for part in parts]
        said.append("\n\n".join([f"<!-- {head} -->", *texts]))
    said += [f"<!-- tool -->\n\n{json.dumps(tool, indent=1)}" for tool in body.get("tools") or ()]
    return "\n\n".join(said) + "\n"


def run_round(standin: Standin, command: list[str], quiet_s: float) -> int:
    """Run a command until it ends, or all it can do without an answer is done; return its exit code."""
    under_way = int(command[command.index("--parallel") + 1]) if "--parallel" in command else 1
    process = subprocess.Popen(command)
    while process.poll() is None:
        time.sleep(LOOK_EVERY_S)
        waiting = standin.waiting()
        idle = time.monotonic() - standin.changed
        if waiting and idle > (SETTLED_S if len(waiting) >= under_way else quiet_s):
            process.send_signal(signal.SIGINT)
            process.wait()
            print("To be answered:", *waiting, sep="\n  ", flush=True)
    return process.returncode


def main() -> int:
    """Serve until interrupted, or for one round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--port", type=int, help="default: 8765, in a round a free one")
    parser.add_argument("--wait", type=float, default=3600.0, metavar="S", help="most seconds until an answer")
    parser.add_argument("--quiet", type=float, default=60.0, metavar="S", help="seconds without a new question")
    given, command = sys.argv[1:], []
    if "--" in given:
        given, command = given[: given.index("--")], given[given.index("--") + 1 :]
    options = parser.parse_args(given)
    # A shell has what it starts in the background ignore SIGINT, and so would the command that is stopped by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    standin = Standin(options.folder, options.wait)
    port = options.port if options.port is not None else 0 if command else 8765
    with MessagesServer(standin.answer, key=KEY, port=port, models=()) as server:
        os.environ.update(ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=KEY)
        if command:
            return run_round(standin, command, options.quiet)
        print(f"ANTHROPIC_BASE_URL={server.url} ANTHROPIC_API_KEY={KEY}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
