"""The test server itself: what else than questions it answers, and its expert."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from messages_api import kernels, replies
from messages_api.server import TEST_KEY, Request
from model_cases import PLAN, question

from stark_lsp.core.conversation import Tool

ROOT = Path(__file__).resolve().parent.parent.parent


def _post(server: Any, path: str, body: dict[str, Any], key: str = TEST_KEY) -> Any:
    headers = {"x-api-key": key, "content-type": "application/json"}
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


BODY = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello there"}]}


def test_a_question_without_streaming_is_answered_whole(serve: Any) -> None:
    server = serve([replies.tool(PLAN, text="Here.", thinking="Hm.")])
    answer = _post(server, "/v1/messages", {**BODY, "tools": [{"name": "submit_plan"}]})
    assert [part["type"] for part in answer["content"]] == ["thinking", "text", "tool_use"]
    assert answer["stop_reason"] == "tool_use"
    assert server.requests[0].finished


def test_tokens_are_counted(serve: Any) -> None:
    assert _post(serve([replies.empty()]), "/v1/messages/count_tokens", BODY)["input_tokens"] > 0


def test_a_request_without_the_key_is_refused(serve: Any) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        _post(serve([replies.empty()]), "/v1/messages", BODY, key="wrong")


def _asked(tool: str, text: str) -> Request:
    body = {"tools": [{"name": tool}], "messages": [{"role": "user", "content": text}]}
    return Request(1, "POST", "/v1/messages", {}, body)


@pytest.mark.parametrize("sample", kernels.CANDIDATES)
def test_the_expert_plans_what_was_not_tried_and_codes_what_was_planned(sample: str) -> None:
    expert = kernels.Expert()
    reference = (ROOT / "samples" / f"{sample}.py").read_text()
    shown = f"```python\n{reference}```\n"
    sources = []
    for _ in kernels.CANDIDATES[sample]:
        plan = expert(_asked("submit_plan", shown)).tool_input or {}
        assert "<<<IMPROVE BEGIN>>>" in plan["annotated_source"]
        code = expert(_asked("submit_kernel", f"{shown}\n{plan['advice']}")).tool_input or {}
        sources.append(code["source"])
        shown += f"```python\n{code['source']}```\n"
    assert sorted(sources) == sorted(kernels.CANDIDATES[sample].values())
    fast = kernels.CANDIDATES[sample][kernels.FAST[sample]]
    assert (expert(_asked("submit_fix", shown)).tool_input or {})["source"] == fast


def test_the_expert_marks_the_source_that_is_to_be_improved() -> None:
    reference = (ROOT / "samples" / "new_gelu.py").read_text()
    example = "```python\nclass Model(nn.Module):\n    def forward(self, x):\n        return x\n```\n"
    asked = f"# An example\n{example}# The reference\n```python\n{reference}```\n# The attempt you start from\n"
    first = kernels.expert(_asked("submit_plan", f"{asked}There is none here yet: you start from the reference."))
    assert "0.044715" in (first.tool_input or {})["annotated_source"]
    attempt = kernels.NEW_GELU["exact"]
    later = kernels.expert(_asked("submit_plan", f"{asked}Attempt 3:\n```python\n{attempt}```\n# Others\n{example}"))
    source = (later.tool_input or {})["annotated_source"]
    assert "".join(line for line in source.splitlines(True) if "<<<IMPROVE" not in line) == attempt
    assert source.count("<<<IMPROVE") == 2


def test_the_expert_tries_all_ideas_when_a_single_agent_sees_the_reference_alone() -> None:
    expert = kernels.Expert()
    reference = (ROOT / "samples" / "new_gelu.py").read_text()
    sources = [(expert(_asked("submit_kernel", reference)).tool_input or {})["source"] for _ in range(4)]
    assert sorted(sources) == sorted(kernels.NEW_GELU.values())


def test_the_expert_says_when_it_knows_nothing() -> None:
    assert kernels.expert(_asked("submit_plan", "class Other: ...")).tool_input is None


def test_every_candidate_of_the_expert_is_python_with_the_class() -> None:
    for candidates in kernels.CANDIDATES.values():
        for source in candidates.values():
            compile(source, "candidate.py", "exec")
            assert "class ModelNew(nn.Module)" in source


async def test_the_server_runs_as_a_command(connect: Any, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"tool_input": {"title": "By command"}}]))
    command = [sys.executable, str(ROOT / "tests/messages_api/server.py"), "--port", "0", "--script", str(script)]
    server = subprocess.Popen([*command, "--key", TEST_KEY], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None

        class Remote:
            url = server.stdout.readline().strip()

        answer = await connect(Remote()).ask(question(tool=Tool("submit_plan", "", {"type": "object"})))
        assert answer.tool_input == {"title": "By command"}
    finally:
        server.kill()
        server.wait()
