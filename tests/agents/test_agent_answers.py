"""Answers in every shape: plans, kernels and fixes are read, everything else is no candidate with its reason."""

from __future__ import annotations

import json
import time
from textwrap import indent

import pytest
from agent_cases import answered, asked
from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.agents.answers import MAX_SOURCE, TOOLS, KernelAnswer, PlanAnswer, read_kernel, read_plan
from stark_lsp.agents.blocks import code_blocks, json_beginning, json_objects, unwrapped, without_blocks
from stark_lsp.core.conversation import Answer
from stark_lsp.core.roles import NoCandidate
from stark_lsp.core.status import ModelRole, StopReason

GOOD = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
OTHER = "class Helper:\n    def much(self):\n        return 'a much longer block than the one that counts'\n"

CALL = {"name": "submit_kernel", "arguments": {"source": GOOD}}


def kernel(answer: Answer, role: ModelRole = ModelRole.CODE) -> str:
    return read_kernel(answer, asked(role), "ModelNew").source


def reason(answer: Answer, role: ModelRole = ModelRole.CODE) -> NoCandidate:
    error = outcome(answer, role)
    assert isinstance(error, NoCandidate)
    return error


def outcome(answer: Answer, role: ModelRole) -> PlanAnswer | KernelAnswer | NoCandidate:
    """Return what reading an answer gives, or why it gives nothing."""
    try:
        if role is ModelRole.PLAN:
            return read_plan(answer, asked(role))
        return read_kernel(answer, asked(role), "ModelNew")
    except NoCandidate as error:
        return error


@pytest.mark.parametrize(
    "answer",
    [
        answered(source=GOOD, summary="It passes."),
        answered(source=GOOD),
        answered(source=GOOD, summary=None),
        answered(code=GOOD),
        answered(source=GOOD.splitlines()),
        answered(source=[line + "\n" for line in GOOD.splitlines()]),
        answered(source=f"```python\n{GOOD}```"),
        answered(source=f"\n```\n{GOOD}```\n\n"),
        answered(source="\ufeff" + GOOD),
        answered(source=GOOD.replace("\n", "\r\n")),
        answered(source=GOOD, cause="It was wrong."),
        answered(source=GOOD, unknown={"deep": [1, 2]}),
        answered(source=GOOD.replace("    pass", "    # # <<<IMPROVE BEGINS>>>\n    pass\n    # # <<<IMPROVE ENDS>>>")),
        answered(f"Here it is:\n\n```python\n{GOOD}```\n"),
        answered(f"```py\n{GOOD}```"),
        answered(f"~~~python\n{GOOD}~~~"),
        answered(f"````python\n{GOOD}````"),
        answered(f"```python title=candidate.py\n{GOOD}```"),
        answered(f"```\n{GOOD}```"),
        answered(f"```python\n{GOOD}"),
        answered(f"```python\n{OTHER}```\nand\n```python\n{GOOD}```\nand\n```cpp\nint x;\n```"),
        answered(f"First:\n```bash\npip install torch\n```\n```python\n{GOOD}```"),
        answered(GOOD),
        answered(json.dumps({"source": GOOD, "summary": "as JSON"})),
        answered(f"```json\n{json.dumps({'source': GOOD})}\n```"),
        answered(f"Here it is: {json.dumps({'source': GOOD})} Hope it helps."),
        answered(f'It gave {{"code": "E1"}} before.\n```python\n{GOOD}```'),
        answered(f"<tool_call>{json.dumps(CALL)}</tool_call>"),
        answered(f"```json\n{json.dumps(CALL)}\n```"),
        answered(json.dumps([{"type": "function", "function": CALL}])),
        answered(json.dumps({**CALL, "arguments": json.dumps(CALL["arguments"])})),
        answered(
            f"<tool_call>\n<function=submit_kernel>\n<parameter=source>\n{GOOD}</parameter>\n"
            "<parameter=summary>\nIt passes.\n</parameter>\n</function>\n</tool_call>"
        ),
        answered(f"1. The code:\n\n   ```python\n{indent(GOOD, '   ')}   ```\n2. That is all."),
        answered(f"- The code:\n\n\t~~~python\n{indent(GOOD, chr(9))}"),
        answered(f"<think>\n```python\n{GOOD * 2}```\n</think>\n```python\n{GOOD}```"),
        answered(f"Draft: {json.dumps({'source': OTHER})}\n</think>{json.dumps({'source': GOOD})}"),
        answered(f"```python\n{GOOD}```", source=""),
        answered(f"```python\n{GOOD}```", source=7),
        answered(f"```python\n{GOOD}```", summary="no source"),
        answered(f"```python\n{GOOD}```", stop=StopReason.OTHER, message="paused"),
        answered(f"```python\n{GOOD}```", message="The tool's input is not JSON."),
        Answer(StopReason.COMPLETE, f"```python\n{GOOD}```", {}),
    ],
)
def test_a_candidate_is_found_however_it_is_handed_in(answer: Answer) -> None:
    assert kernel(answer) == GOOD


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answered(stop=StopReason.REFUSAL), "The model declined to answer."),
        (answered(stop=StopReason.REFUSAL, message="policy."), "The model declined to answer: policy."),
        (answered(stop=StopReason.REFUSAL, message="The model declined (x)."), "The model declined (x)."),
        (answered(stop=StopReason.REFUSAL, source=GOOD), "declined"),
        (
            answered("I begin with", stop=StopReason.MAX_TOKENS),
            "cut off at 4000 tokens: it has to be shorter, or code.max_tokens larger",
        ),
        (answered(stop=StopReason.MAX_TOKENS), "cut off"),
        (
            answered(stop=StopReason.MAX_TOKENS, message="It was full."),
            "It was full: it has to be shorter, or the server's context larger",
        ),
        (answered(), "The answer was empty."),
        (answered(" \n\t "), "The answer was empty."),
        (answered(source=" \n"), "The answer was empty."),
        (answered(summary="It is fast."), "What was handed in has none of source, code, edits."),
        (answered(message="The tool's input is not JSON."), "could not be used: The tool's input is not JSON."),
        (answered(stop=StopReason.OTHER, message="paused"), "could not be used: paused."),
        (answered("I would rather talk about the weather."), "holds no Python source"),
        (answered("```cpp\nint x;\n```"), "holds no Python source"),
        (answered("```python\n```"), "holds no Python source"),
        (answered(source="I cannot."), "holds no Python source"),
        (answered(source="(" * 5000), "holds no Python source"),
        (answered(source="-" * 100_000 + "1"), "holds no Python source"),
        (answered(source="x = '\ud800'\n" + GOOD), "no file can hold"),
        (answered(source=GOOD + "#" * MAX_SOURCE), "too long"),
        (answered("{" * 50_000), "holds no Python source"),
        (answered('{"a":' * 50_000), "holds no Python source"),
        (answered(f"<think>\n```python\n{GOOD}```\nBut no", stop=StopReason.MAX_TOKENS), "cut off"),
        (answered("[" * 100_000, source=3), "holds no Python source"),
    ],
)
def test_what_is_no_candidate_has_a_reason(answer: Answer, said: str) -> None:
    error = reason(answer)
    assert said in str(error)
    assert str(error).endswith(".")
    error.text.encode()


def test_only_of_what_left_nothing_at_its_limit_is_no_more_asked() -> None:
    limit = {"stop": StopReason.MAX_TOKENS}
    assert reason(answered(**limit)).final
    assert reason(answered("<think>Let me see", **limit)).final
    assert not reason(answered("I begin with", **limit)).final
    assert not reason(answered('{"summary": "x', **limit)).final
    assert not reason(answered()).final


_CUT = "The answer was cut off at 4000 tokens"
_JSON = json.dumps({"source": GOOD, "summary": "It passes by a lot."})
_MAX = {"stop": StopReason.MAX_TOKENS, "message": f"{_CUT}."}


@pytest.mark.parametrize(
    "answer",
    [
        answered(source=f"Here it is:\n\n```python\n{GOOD}```\n\nIt passes."),
        answered(source=f"```python\n{GOOD}```\nIt passes."),
        answered(**_MAX, source=GOOD),
        answered(**_MAX, text=f"```python\n{GOOD}```\nIt passes because"),
        answered(**_MAX, text=_JSON[:-10]),
        answered(**_MAX, text="Well.\n" + _JSON[:-10]),
        answered(_JSON[:-1] + " oops", message="What was handed in could not be read: it is not JSON."),
        answered(source=GOOD.replace("ModelNew", "Gate")),
    ],
)
def test_what_is_whole_is_recovered(answer: Answer) -> None:
    found = read_kernel(answer, asked(), "ModelNew", "Gate")
    assert found.source == GOOD
    assert found.remark in ("", "The class was still called Gate; it was renamed.")


@pytest.mark.parametrize(
    ("answer", "remark"),
    [
        (answered(source=GOOD + "x = (1))\n"), ""),
        (answered(source=GOOD.replace("ModelNew", "Fast")), ""),
        (answered(source="+class ModelNew:\n-    old\n+    pass\n"), ""),
        (answered(source=f'"""\n```\n{OTHER}```\n"""\n{GOOD})'), ""),
        (answered(f"```python\n{OTHER}```"), ""),
        (answered(**_MAX, text=f"```python\n{GOOD}    def forw"), _CUT),
        (answered(**_MAX, text=_JSON[:60]), _CUT),
        (
            answered(_JSON[:60], message="What was handed in could not be read: it is not JSON."),
            "The answer broke off.",
        ),
    ],
)
def test_what_is_not_whole_goes_to_the_judge_and_so_to_the_debug_agent(answer: Answer, remark: str) -> None:
    found = read_kernel(answer, asked(), "ModelNew", "Gate")
    assert "class" in found.source
    assert found.remark.startswith(remark)
    assert bool(found.remark) is bool(remark)


@given(st.integers(0, len(_JSON)))
def test_a_field_that_was_cut_is_a_beginning_of_what_it_was_and_is_named(length: int) -> None:
    fields, cut = json_beginning(_JSON[:length])
    for name, value in json.loads(_JSON).items():
        assert value.startswith(fields.get(name, ""))
        assert name == cut or fields.get(name, value) == value


def test_a_class_that_kept_its_name_is_renamed_wherever_it_is_meant() -> None:
    source = 'class Gate:\n    def __init__(self):\n        super(Gate, self)\n        self.a = b.Gate or "Gate"\n'
    assert kernel(answered(source=source)) == source
    renamed = read_kernel(answered(source=source), asked(), "ModelNew", "Gate").source
    assert renamed.splitlines()[0] == "class ModelNew:"
    assert "super(ModelNew, self)" in renamed
    assert 'b.Gate or "Gate"' in renamed
    both = GOOD + source
    assert read_kernel(answered(source=both), asked(), "ModelNew", "Gate").source == both


def test_what_was_answered_is_kept_with_the_reason() -> None:
    assert "weather" in reason(answered("About the weather.")).text
    assert len(reason(answered(source=GOOD + "#" * 5_000_000)).text) < 200_000


def test_a_fix_tells_its_cause() -> None:
    read = read_kernel(answered(source=GOOD, cause="An index ran past the end."), asked(ModelRole.DEBUG), "ModelNew")
    assert read.summary == "An index ran past the end."


@pytest.mark.parametrize("role", list(ModelRole))
def test_the_remains_of_what_was_handed_in_are_no_answer(role: ModelRole) -> None:
    broken = answered('{"title": "no end', message="What was handed in could not be read: it is not JSON.")
    said = "What was handed in could not be read: it is not JSON."
    with pytest.raises(NoCandidate, match=said):
        read_plan(broken, asked(role)) if role is ModelRole.PLAN else read_kernel(broken, asked(role), "ModelNew")


def test_a_plan_is_read_from_the_tool() -> None:
    read = read_plan(
        answered(
            title="Fuse \x1b[31mall\x1b[0m\nof it", advice="Do.\r\nIt.", annotated_source=GOOD, expected_saving_ms=1.5
        ),
        asked(ModelRole.PLAN),
    )
    assert (read.title, read.advice, read.annotated_source, read.expected_saving_ms) == (
        "Fuse all of it",
        "Do.\nIt.",
        GOOD,
        1.5,
    )


@pytest.mark.parametrize(
    "saving",
    [None, "3", True, float("nan"), float("inf"), -1, 10**400, [1], {"a": 1}],
    ids=lambda value: str(value)[:9],
)
def test_an_expected_saving_that_is_no_time_is_left_out(saving: object) -> None:
    read = read_plan(answered(title="A", advice="B", expected_saving_ms=saving), asked(ModelRole.PLAN))
    assert read.expected_saving_ms is None


def test_a_plan_is_read_from_text() -> None:
    marked = GOOD.replace("    pass", "    # <<<IMPROVE BEGIN>>>\n    pass\n    # <<<IMPROVE END>>>")
    text = f"## Fuse both\n\nRead once.\n\n```python\n{OTHER * 3}```\n\n```python\n{marked}```\nThat is all."
    read = read_plan(answered(text), asked(ModelRole.PLAN))
    assert read.title == "Fuse both"
    assert "Read once." in read.advice
    assert "That is all." in read.advice
    assert read.annotated_source == marked


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answered(), "empty"),
        (answered(annotated_source=GOOD), "has none of advice, title."),
        (answered(title=" ", advice=["", 3]), "empty"),
        (answered(f"```python\n{GOOD}```"), "without a plan"),
        (answered("x", stop=StopReason.REFUSAL), "declined"),
        (answered('{"title": "A", "advice": "B', stop=StopReason.MAX_TOKENS), "or plan.max_tokens larger"),
        (answered("First, fuse", stop=StopReason.MAX_TOKENS), "or plan.max_tokens larger"),
    ],
)
def test_what_is_no_plan_has_a_reason(answer: Answer, said: str) -> None:
    assert said in str(reason(answer, ModelRole.PLAN))


def test_a_plan_whose_marks_were_cut_off_is_a_plan() -> None:
    text = '{"title": "A", "advice": "B", "annotated_source": "import to'
    read = read_plan(answered(text, stop=StopReason.MAX_TOKENS), asked(ModelRole.PLAN))
    assert (read.title, read.advice, read.annotated_source) == ("A", "B", "import to")


def test_a_plan_without_title_or_advice_takes_the_other() -> None:
    assert read_plan(answered(advice="**Fuse** it.\nNow."), asked(ModelRole.PLAN)).title == "Fuse it."
    assert read_plan(answered(title="Fuse it"), asked(ModelRole.PLAN)).advice == "Fuse it"


def test_an_annotated_source_that_is_too_long_is_left_out() -> None:
    read = read_plan(answered(title="A", advice="B", annotated_source="x" * (MAX_SOURCE + 1)), asked(ModelRole.PLAN))
    assert read.annotated_source == ""


_FIELDS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
)
_PIECES = st.sampled_from(
    [
        "```python\n",
        "```\n",
        "~~~",
        "```",
        GOOD,
        OTHER,
        "{",
        '{"source": "x"}',
        "<<<IMPROVE BEGIN>>>",
        "\n",
        "\x00",
        "\ud800",
    ]
)


@given(
    st.sampled_from(StopReason),
    st.lists(_PIECES | st.text(max_size=20), max_size=12).map("".join),
    st.none() | st.dictionaries(st.sampled_from(["source", "code", "summary", "title", "advice"]), _FIELDS, max_size=4),
    st.sampled_from(ModelRole),
)
@settings(max_examples=300, deadline=None)
def test_no_answer_breaks_the_reader(
    stop: StopReason, text: str, fields: dict[str, object] | None, role: ModelRole
) -> None:
    found = outcome(Answer(stop, text, fields), role)
    if isinstance(found, NoCandidate):
        assert str(found)
        found.text.encode()
    elif isinstance(found, PlanAnswer):
        assert found.title
        assert "\n" not in found.title
        (found.title + found.advice + found.annotated_source).encode()
    else:
        found.source.encode()
        assert found.source.strip()


@given(st.lists(st.tuples(st.sampled_from(["python", "cpp", ""]), st.text("ab\n ", max_size=12)), max_size=4))
def test_blocks_are_read_as_they_were_written(written: list[tuple[str, str]]) -> None:
    text = "words\n" + "".join(f"```{language}\n{code}\n```\nwords\n" for language, code in written)
    assert [(block.language, block.code) for block in code_blocks(text)] == [
        (language, code + "\n") for language, code in written
    ]
    assert set(without_blocks(text).split()) <= {"words"}


def test_a_block_in_a_list_loses_no_more_than_the_margin_of_its_fence() -> None:
    text = "   ```python\n   if x:\n       y\n z\n\n```"
    assert [block.code for block in code_blocks(text)] == ["if x:\n    y\nz\n\n"]


def test_arguments_that_are_no_object_leave_a_call_as_it_is() -> None:
    for wrong in ("{not JSON", "[1]", 7, None):
        call = {"name": "submit_kernel", "arguments": wrong}
        assert next(json_objects(json.dumps(call))) == call


def test_text_that_only_mentions_a_fence_is_no_block() -> None:
    assert code_blocks("Use ```torch.add``` here.\nAnd ```x``` there.") == ()
    assert unwrapped("```python\na\n```\nand more") == "```python\na\n```\nand more"
    assert list(json_objects("{not json} [1]")) == []
    assert list(json_objects('So: {"b" {"a": {"c": 2}} and\n```python\n{"d": 1}\n```')) == [{"a": {"c": 2}}]


HOSTILE = (
    "<" * 190_000 + "improve",
    ("<" * 1_900 + " improve\n") * 100,
    ("#" * 1_900 + "x <<<IMPROVE BEGIN>>>\n") * 100,
    ("/" * 1_900 + "x <<<IMPROVE BEGIN>>>\n") * 20,
    "# <<<IMPROVE BEGIN>>>\n" * 5_000 + "x\n" * 40_000,
    "`" * 190_000,
    "```\n" * 50_000,
)


@pytest.mark.timeout(120)
def test_a_hostile_answer_is_read_to_its_end() -> None:
    for text in HOSTILE:
        for answer in (answered(source=text), answered(text)):
            with pytest.raises(NoCandidate):
                read_kernel(answer, asked(), "ModelNew", "Gate")


def test_each_role_has_a_tool_whose_fields_are_described() -> None:
    assert {role: tool.name for role, tool in TOOLS.items()} == {
        ModelRole.PLAN: "submit_plan",
        ModelRole.CODE: "submit_kernel",
        ModelRole.DEBUG: "submit_fix",
        ModelRole.SAMPLING: "submit_kernel",
        ModelRole.REFLEXION: "submit_kernel",
    }
    for tool in TOOLS.values():
        assert all(field["description"] for field in tool.schema["properties"].values())
        assert set(tool.schema["required"]) <= set(tool.schema["properties"])


@pytest.mark.parametrize(
    "line",
    ["```" + " " * 60_000 + "`", "~" * 60_000 + "`", "```" + "a" * 60_000 + "`"],
    ids=["spaces", "tildes", "word"],
)
def test_a_line_that_nearly_opens_a_block_costs_nothing(line: str) -> None:
    begun = time.process_time()
    assert code_blocks(f"{line}\n```python\n{GOOD}```")[-1].code == GOOD
    assert time.process_time() - begun < 1.0


def test_a_source_nested_too_deeply_is_left_to_the_judge() -> None:
    branches = "".join(f"elif torch.a{number}:\n    pass\n" for number in range(2000))
    source = f"{GOOD}if torch.b:\n    pass\n{branches}"
    assert kernel(answered(source=source)) == source
