"""What typos cost a search: a scripted model that makes them, asked as the paper does and with corrections and edits.

    python benchmarks/agents.py [--seeds 2] [--attempts 14]

The model answers over HTTP as a service does (`tests/messages_api`), and worker, compiler and verdicts are real, on a
CPU. It knows one right kernel for `samples/rms_norm.py`, varied from plan to plan, and hands each in with a fault, one
after the other: none, a missing include, a stray bracket, a class of another name, prose around, an answer that is cut
off, and, where it may hand in edits, one that misquotes what it searches for. Asked to repair or to correct, it does it
right. So the table says what the way of asking costs, and nothing of how well a model repairs.

- *built*: share of attempts whose verdict is about a kernel that was built and loaded.
- *read*, *cached*, *written*: tokens an attempt, four characters each; *cached* is a part of *read*.
- *price read*: what reading costs an attempt, in tokens at the full price: those that are stored in the cache at 1.25,
  those that are found there at 0.1.

The first row is what `--paper` asks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "runs"), str(TESTS / "agents")]

from messages_api import replies
from messages_api.kernels import RMS_NORM
from messages_api.replies import Reply
from messages_api.server import TEST_KEY, MessagesServer, Request
from model_runs import options, session
from test_agent_patching import edits_between

from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Node
from stark_lsp.core.status import DeviceChoice
from stark_lsp.discovery.problems import make_problem
from stark_lsp.store import RunStore

FAULTS = ("none", "include", "bracket", "class", "prose", "cut off", "misquoted")
_FENCED = re.compile(r"^(`{3,})python\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
_HEADINGS = ("# The attempt you start from", "# The reference")


class Writer:
    """The model."""

    def __init__(self) -> None:
        self.plans = 0

    def __call__(self, request: Request) -> Reply:
        """Answer one question."""
        shown = _shown(request.text)
        if request.tool == "submit_plan":
            self.plans += 1
            marked = shown.replace("        return ", "        # <<<IMPROVE BEGIN>>>\n        return ") + "\n"
            return replies.tool({"title": f"Variant {self.plans}", "advice": "One pass.", "annotated_source": marked})
        number = int(re.findall(r"Variant (\d+)", request.text)[-1])
        again = request.tool == "submit_fix" or "what you have just handed in" in request.text
        again = again or "You have answered this already" in request.text
        fault = "none" if again else FAULTS[number % len(FAULTS)]
        right = _kernel(number)
        source = {
            "include": right.replace("#include <cmath>\n", ""),
            "bracket": f"{right})\n",
            "class": right.replace("ModelNew", "FastNorm"),
        }.get(fault, right)
        given = {"summary": f"Variant {number} in one pass.", "cause": "It did not build."}
        given.pop("cause" if request.tool == "submit_kernel" else "summary")
        if fault == "prose":
            return replies.text(f"This is variant {number}:\n\n```python\n{source}```\n\nIt makes one pass.")
        answer = {**given, **_handed_in(request, shown, source, misquoted=fault == "misquoted")}
        if fault == "cut off":
            text = json.dumps(answer)
            return replies.cut_off(text[: len(text) * 6 // 10])
        return replies.tool(answer)


def _shown(text: str) -> str:
    """Return the source that is to be changed."""
    for heading in _HEADINGS:
        _, _, below = text.rpartition(heading)
        found = [code for _, code in _FENCED.findall(below) if "nn.Module" in code]
        if found and not (heading == _HEADINGS[0] and "you start from the reference" in below[:400]):
            return "".join(line for line in found[0].splitlines(keepends=True) if "IMPROVE" not in line)
    raise ValueError("the question shows no source")


def _kernel(number: int) -> str:
    return RMS_NORM["rows"].replace("schedule(static)", f"schedule(static, {number})")


def _handed_in(request: Request, shown: str, source: str, *, misquoted: bool) -> dict[str, object]:
    """Return edits where they are taken and shorter, else the whole file."""
    schema = request.body["tools"][0]["input_schema"]["properties"]
    if "edits" not in schema:
        return {"source": source}
    made = edits_between(shown.splitlines(keepends=True), source.splitlines(keepends=True))
    edits = [{"search": one.search, "replace": one.replace} for one in made]
    if misquoted:
        edits[0]["search"] = edits[0]["search"].replace("import", "imports").replace("schedule", "schedules")
    return {"edits": edits} if len(json.dumps(edits)) < len(json.dumps(source)) else {"source": source}


def _problem(folder: Path) -> Problem:
    text = (TESTS.parent / "samples" / "rms_norm.py").read_text().replace("2048, 4096", "64, 4096")
    path = folder / "model.py"
    path.write_text(text)
    return make_problem(str(path), text, None, device=DeviceChoice.CPU)


def _built(node: Node) -> bool:
    return node.verdict is not None and not node.verdict.status.early


async def measure(corrections: int, edits: bool, attempts: int, seeds: int, *, paper: bool = False) -> str:
    """Return a row of the table."""
    count: Counter[str] = Counter()
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder, MessagesServer(Writer()) as server:
            os.environ.update(ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=TEST_KEY)
            store = RunStore(Path(folder) / "runs.sqlite3")
            wanted = options(attempts, seed=seed, corrections=corrections)
            wanted = replace(wanted, agents=replace(wanted.agents, edits=edits))
            if paper:
                search, agents = as_in_paper(wanted.search, replace(wanted.agents, dialect="raw"))
                wanted = replace(wanted, search=search, agents=agents)
            run = await session(_problem(Path(folder)), wanted, store, []).execute()
            nodes = [node for node in store.load(run.id).nodes.values() if node.parent is not None]
            count.update(attempts=len(nodes), built=sum(map(_built, nodes)))
            for exchange in store.exchanges.list(run.id):
                usage = exchange.answer.usage
                count.update(
                    questions=1,
                    cached=usage.cache_read_tokens,
                    read=usage.total - usage.output_tokens,
                    price=usage.input_tokens + 1.25 * usage.cache_write_tokens + 0.1 * usage.cache_read_tokens,
                    written=usage.output_tokens,
                )
            print(f"{dict(count)}", file=sys.stderr, flush=True)
    each = {name: value / count["attempts"] for name, value in count.items()}
    return (
        f"| {'paper' if paper else corrections} | {'edits' if edits else 'whole files'} | {count['attempts']} "
        f"| {each['built']:.0%} | {each['questions']:.2f} | {each['read']:,.0f} | {each['cached']:,.0f} "
        f"| {each['price']:,.0f} | {each['written']:,.0f} | {count['price'] / max(1, count['built']):,.0f} "
        f"| {count['written'] / max(1, count['built']):,.0f} |"
    )


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--attempts", type=int, default=14)
    arguments = parser.parse_args()
    print(
        "| corrections | handed in | attempts | built | questions | read | cached | price read | written "
        "| price read for each built | written for each built |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    print(asyncio.run(measure(0, False, arguments.attempts, arguments.seeds, paper=True)), flush=True)
    for corrections, edits in ((0, False), (2, False), (2, True)):
        print(asyncio.run(measure(corrections, edits, arguments.attempts, arguments.seeds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
