"""`stark-lsp mcp` as a coding agent meets it: the SDK's own client, real standard input and output, the real judge."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from cli_cases import CHAIN, FEW, command, environment, here, write
from cli_stored import HOSTILE, stored_run

from stark_lsp.cli import mcp as mcp_command

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult

    from stark_lsp.mcp.tools import Setup

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
SAMPLE = (SAMPLES / "rms_norm.py").read_text().replace("(2048, 4096)", "(8, 4096)")
RIGHT = SAMPLE.partition("def get_inputs")[0].replace("class Model(", "class ModelNew(").replace("x.pow(2)", "(x * x)")
WRONG = RIGHT.replace("* torch.rsqrt", "* 1.01 * torch.rsqrt")
ENDLESS = RIGHT.replace("        variance", "        while True:\n            pass\n        variance")
KEY = "sk-ant-a-canary"
STORED, ELSEWHERE = "1f3a77c0", "77c01f3a"
"""Runs on a file of the workspace, and on another one."""
ALONE = ("--set", "compile_baseline=false")
"""torch.compile takes longer than all the rest."""


class Agent:
    """A client that calls the tools of a server, from a thread of its own since its scopes are bound to one task."""

    def __init__(self, portal: Any, client: Client) -> None:
        self._portal = portal
        self._client = client
        self.said: list[str] = []
        """Everything that was answered."""
        self.steps: list[str] = []
        """What was told while it waited."""
        self.stepped = threading.Event()
        self.server = max(psutil.Process().children(), key=psutil.Process.create_time)

    def tools(self) -> Any:
        return self._portal.call(self._client.list_tools).tools

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured form of an answer, which must not be an error."""
        result = self._portal.call(self._call, name, arguments)
        assert not result.is_error, result.content
        return dict(result.structured_content)

    def page(self, name: str, **arguments: Any) -> str:
        """Return the text of an answer."""
        return str(self._portal.call(self._call, name, arguments).content[0].text)

    def refused(self, name: str, **arguments: Any) -> str:
        """Return the text of an answer, which must be an error."""
        result = self._portal.call(self._call, name, arguments)
        assert result.is_error, result.content
        return str(result.content[0].text)

    def start(self, name: str, **arguments: Any) -> Any:
        """Begin a call and return its future."""
        return self._portal.start_task_soon(self._call, name, arguments)

    async def _call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            self.steps.append(message or "")
            self.stepped.set()

        result = await self._client.call_tool(name, arguments, progress_callback=progress)
        self.said.append(result.model_dump_json())
        return result


@contextmanager
def serving(folder: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[Agent]:
    """Start a server in a folder, and see at the end that nothing of it is left."""
    # Takes a second, and every process imports this file.
    from anyio.from_thread import start_blocking_portal
    from mcp import Client, StdioServerParameters, stdio_client

    arguments = [*command("mcp", "--python", sys.executable, *FEW, *ALONE, *options)][1:]
    how = StdioServerParameters(
        command=sys.executable, args=arguments, cwd=folder, env=environment(folder / "state", env or {})
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(how))) as client,
    ):
        agent = Agent(portal, client)
        yield agent
        below = [agent.server, *agent.server.children(recursive=True)] if agent.server.is_running() else []
    _, alive = psutil.wait_procs(below, timeout=30)
    assert not alive


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("workspace")
    write(folder, "norm.py", SAMPLE)
    write(folder, "right.py", RIGHT)
    (folder / "state").mkdir()
    elsewhere = write(tmp_path_factory.mktemp("elsewhere"), "gate.py", CHAIN)
    for run, path in ((STORED, write(folder, "gate.py", CHAIN)), (ELSEWHERE, elsewhere)):
        stored_run(folder / "state", path, run).close()
    write(folder, "noisy.py", f'print("not for the wire")\n{CHAIN}')
    (folder / "outside.py").symlink_to(Path(__file__))
    os.mkfifo(folder / "pipe.py")
    (folder / "huge.py").write_bytes(b"#" * 10_000_001)
    with serving(folder, env={"ANTHROPIC_API_KEY": KEY}) as found:
        yield found
        assert KEY not in "".join(found.said)


def test_the_server_imports_neither_torch_nor_a_models_sdk() -> None:
    asked = "import sys, stark_lsp.mcp.app; print({'torch', 'anthropic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(("given", "notes"), [([], True), (["--no-notes"], False)])
def test_notes_of_earlier_runs_are_kept_from_a_model_where_the_user_says_so(
    given: list[str], notes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Setup] = []
    monkeypatch.setattr("stark_lsp.mcp.app.serve", lambda root, setup: served.append(setup))
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    mcp_command.configure(parser)
    mcp_command.run(parser.parse_args(given))
    assert [setup.notes for setup in served] == [notes]


def test_without_the_sdk_the_cure_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    done = here(capsys, "mcp", state=tmp_path, cwd=tmp_path)
    assert done.returncode == 2
    assert "Install stark-lsp[mcp]" in done.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--root", "/nowhere"], "This is not a folder"),
        (["--dollars", "0"], "--dollars must be more than 0"),
        (["--model", "oracle"], "There is no model 'oracle'"),
        (["--set", "seeds=none"], "--set seeds must be"),
    ],
)
def test_bad_options_end_it_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    done = here(capsys, "mcp", *options, state=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stdout == ""


def test_the_page_of_the_docs_can_be_set_up_as_it_stands(agent: Agent) -> None:
    text = (SAMPLES.parent / "docs" / "mcp.md").read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.S)]
    parser = argparse.ArgumentParser(exit_on_error=False)
    mcp_command.configure(parser)
    for block in blocks:
        (server,) = (block.get("mcpServers") or block["servers"]).values()
        assert (server["command"], server["args"][0]) == ("stark-lsp", "mcp")
        parser.parse_args(server["args"][1:])
    assert len(blocks) == 2
    assert re.findall(r"^\| `(\w+)` .*\|", text.partition("## The tools")[2], re.M) == [
        tool.name for tool in agent.tools()
    ]


def test_every_tool_says_what_it_does_and_whether_it_runs_code(agent: Agent) -> None:
    tools = {tool.name: tool for tool in agent.tools()}
    assert tools.keys() == {"judge", "profile", "optimize", "runs", "proposal", "cancel"}
    assert {name for name, tool in tools.items() if tool.annotations.read_only_hint} == {"runs", "proposal"}
    for tool in tools.values():
        assert tool.description
        assert all("description" in field for field in tool.input_schema["properties"].values())


def test_a_right_and_a_wrong_candidate_are_judged_side_by_side(agent: Agent) -> None:
    right = agent.start("judge", reference="norm.py", candidate="right.py", device="cpu")
    wrong = agent.call("judge", reference="norm.py::Model", candidate=WRONG, device="cpu")
    assert wrong["status"] == "WRONG_RESULT"
    assert wrong["errors"]["max_rel"] > wrong["errors"]["tolerance"]
    assert wrong["speedup_vs_eager"] is None
    answer = right.result(60)
    verdict = answer.structured_content
    assert verdict["status"] == "OK"
    low, high = verdict["interval"]
    assert low <= verdict["speedup_vs_eager"] <= high
    assert verdict["isolation"] in ("bubblewrap", "landlock")
    assert verdict["conclusion"]
    for part in ("Verified", "against eager", verdict["conclusion"], "isolation"):
        assert part in answer.content[0].text
    assert any(agent.steps), "what goes on is told meanwhile"


@pytest.mark.slow
def test_the_original_is_profiled(agent: Agent) -> None:
    profile = agent.call("profile", reference="norm.py", device="cpu")
    assert profile["runtime"]["median_ms"] > 0
    assert profile["launch_overhead_us"] is None, "known on a GPU"
    assert any("aten::" in launch["name"] for launch in profile["profile"]["launched"])
    assert profile["roofline"]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("judge", {"reference": "nothing.py", "candidate": "right.py"}, "There is no such file"),
        ("judge", {"reference": "norm.py::Nobody", "candidate": "right.py"}, "Modules in this file: Model."),
        ("judge", {"reference": "norm.py", "candidate": "right.py::Nobody"}, "Classes in this file: ModelNew."),
        ("judge", {"reference": "norm.py\0", "candidate": "right.py"}, "cannot hold a NUL"),
        ("judge", {"reference": "../norm.py", "candidate": "right.py"}, "outside of the workspace"),
        ("judge", {"reference": "norm.py", "candidate": "/etc/passwd"}, "outside of the workspace"),
        ("profile", {"reference": "outside.py"}, "outside of the workspace"),
        ("profile", {"reference": "pipe.py"}, "This is no file"),
        ("judge", {"reference": "norm.py", "candidate": "huge.py"}, "more than 10 MB"),
        ("judge", {"reference": "norm.py", "candidate": "right.py", "device": "tpu"}, "'auto', 'cpu' or 'cuda'"),
        ("optimize", {"reference": "norm.py", "attempts": 0}, "greater than or equal to 1"),
        ("runs", {"run": "0000"}, "There is no run '0000'"),
        ("proposal", {"run": "0000"}, "There is no run '0000'"),
        ("cancel", {"run": "0000"}, "There is no run '0000'"),
    ],
)
def test_bad_input_is_an_error_with_its_cure(agent: Agent, name: str, arguments: dict[str, Any], told: str) -> None:
    assert told in agent.refused(name, **arguments)


@pytest.mark.slow
@pytest.mark.ci
def test_a_cancelled_call_leaves_nothing_running(agent: Agent) -> None:
    agent.steps.clear()
    call = agent.start("judge", reference="norm.py", candidate=ENDLESS, device="cpu")
    while "Verifying the candidate" not in agent.steps:
        agent.stepped.clear()
        assert agent.stepped.wait(60)
    below = agent.server.children(recursive=True)
    assert len(below) >= 4, "guard, worker, the reference's process and the candidate's"
    call.cancel()
    _, alive = psutil.wait_procs(below, timeout=30)
    assert not alive
    assert agent.call("runs")["runs"], "and the server goes on"


@pytest.mark.slow
@pytest.mark.ci
def test_a_class_is_optimized_in_the_background(agent: Agent) -> None:
    begun = agent.call("optimize", reference="noisy.py", attempts=1, device="cpu")
    run = begun["run"]["id"]
    assert begun["run"]["state"] == "running"
    assert begun["baselines"]["eager_ms"] > 0
    assert f"Run {run} goes on" in agent.refused("optimize", reference="norm.py", device="cpu")
    assert "one that goes on proposes at its end" in agent.refused("proposal", run=run)
    while (shown := agent.call("runs", run=run, wait_s=20))["run"]["state"] == "running":
        pass
    assert shown["run"]["state"] == "finished"
    assert [attempt["status"] for attempt in shown["attempts"]] == ["OK"]
    assert "is not under way in this server" in agent.refused("cancel", run=run)
    assert agent.call("runs", limit=1)["runs"][0]["id"] == run


def test_runs_on_files_of_the_workspace_are_shown_and_no_others(agent: Agent) -> None:
    shown = [run["id"] for run in agent.call("runs")["runs"]]
    assert STORED in shown
    assert ELSEWHERE not in shown
    assert "outside of the workspace" in agent.refused("runs", run=ELSEWHERE)
    assert "outside of the workspace" in agent.refused("proposal", run=ELSEWHERE)
    found = agent.call("runs", run=STORED)
    assert (found["best"]["node"], found["best_so_far"]) == (1, 1)
    assert "source" not in found["best"], "it is long, and the proposal has it"
    page = agent.page("runs", run=STORED)
    assert "did not compile" in page
    assert HOSTILE not in page


def test_a_proposal_is_an_edit_with_its_evidence_and_nothing_is_written(agent: Agent) -> None:
    offer = agent.call("proposal", run=STORED[:4])
    assert offer["patch"].startswith("--- a/gate.py")
    assert "+class ModelNew(nn.Module):" in offer["patch"]
    assert "class ModelNew(nn.Module):" in offer["best"]["source"]
    assert offer["best"]["interval"][0] > 1
    assert offer["stale"] == ""
    text = agent.page("proposal", run=STORED)
    assert offer["message"] in text
    assert offer["patch"] in text
    assert "+class ModelNew" not in agent.call("proposal", run=STORED, write="replace")["patch"]
    assert Path(offer["path"]).read_text() == CHAIN


def test_a_model_without_a_key_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    write(tmp_path, "gate.py", CHAIN)
    with serving(tmp_path, "--model", "anthropic") as agent:
        assert "There is no API key" in agent.refused("optimize", reference="gate.py", device="cpu")
        assert agent.call("runs") == {"runs": []}


@pytest.mark.slow
def test_a_run_can_be_cancelled_or_interrupted_and_is_gone_on_with(tmp_path: Path) -> None:
    write(tmp_path, "gate.py", CHAIN)
    with serving(tmp_path) as agent:
        run = agent.call("optimize", reference="gate.py", attempts=20, device="cpu")["run"]["id"]
        assert agent.call("cancel", run=run)["run"]["state"] == "cancelled"
        again = agent.call("optimize", reference="gate.py", attempts=20, device="cpu")
        assert (again["run"]["id"], again["resumed"]) == (run, True)
    with serving(tmp_path) as agent:  # the client of the first one has left
        assert agent.call("runs", run=run)["run"]["state"] == "interrupted"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_and_all_below_it(tmp_path: Path, number: signal.Signals) -> None:
    write(tmp_path, "gate.py", CHAIN)
    with serving(tmp_path) as agent:
        agent.call("optimize", reference="gate.py", attempts=20, device="cpu")
        below = agent.server.children(recursive=True)
        agent.server.send_signal(number)
        _, alive = psutil.wait_procs([agent.server, *below], timeout=30)
        assert not alive
