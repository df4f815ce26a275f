"""What a model answered, read: a plan, a kernel, a fix; or why there is none.

An answer is handed in by a tool. A model that writes text instead is read as well: a JSON object with the tool's
fields, else the largest block of Python that defines the class. Whatever comes is taken for what it is, hostile text:
it is parsed and measured, never run here, and no path is made of it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from stark_lsp.agents.blocks import PYTHON, code_blocks, json_object, unwrapped, without_blocks
from stark_lsp.agents.edits import readable
from stark_lsp.agents.markers import strip
from stark_lsp.agents.texts import capped, clean, encodable, one_line
from stark_lsp.core.conversation import Answer, Question, Tool
from stark_lsp.core.roles import NoCandidate
from stark_lsp.core.status import ModelRole, StopReason
from stark_lsp.discovery.syntax import find_class, parse

MAX_SOURCE = 200_000
"""Characters a source may have."""
MAX_ANSWER = 2_000_000
"""Characters of text that are looked at."""
MAX_ADVICE = 20_000
TITLE = 100
_KEPT = 100_000
"""Characters of an answer that could not be used and are kept with the attempt."""


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _tool(name: str, description: str, optional: tuple[str, ...] = (), **properties: dict[str, Any]) -> Tool:
    required = [field for field in properties if field not in optional]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Tool(name, description, schema)


SUBMIT_PLAN = _tool(
    "submit_plan",
    "Hand in your one plan. Call this exactly once.",
    optional=("expected_saving_ms",),
    title=_text("What to do, in at most ten words."),
    advice=_text("The plan in Markdown: what happens now, what to do instead and why, in enough detail to write it."),
    annotated_source=_text("The whole selected source, unchanged but for the marker comments."),
    expected_saving_ms={"type": "number", "description": "Milliseconds that you expect one call to save."},
)
"""How a plan is handed in."""
SUBMIT_KERNEL = _tool(
    "submit_kernel",
    "Hand in the candidate. Call this exactly once.",
    source=_text("The whole candidate file, Python."),
    summary=_text("What it does differently, in one or two sentences; the first one is its title."),
)
"""How a candidate is handed in."""
SUBMIT_FIX = _tool(
    "submit_fix",
    "Hand in the repaired candidate. Call this exactly once.",
    cause=_text("Why it failed, in one or two sentences."),
    source=_text("The whole repaired candidate file, Python."),
)
"""How a repair is handed in."""

TOOLS = {
    ModelRole.PLAN: SUBMIT_PLAN,
    ModelRole.CODE: SUBMIT_KERNEL,
    ModelRole.DEBUG: SUBMIT_FIX,
    ModelRole.SAMPLING: SUBMIT_KERNEL,
    ModelRole.REFLEXION: SUBMIT_KERNEL,
}
"""The tool of each role."""


@dataclass(frozen=True)
class PlanAnswer:
    """A plan as it was handed in; its marks are not checked yet."""

    title: str
    advice: str
    annotated_source: str
    """Empty if there was none that can be used."""
    expected_saving_ms: float | None = None


@dataclass(frozen=True)
class KernelAnswer:
    """A candidate as it was handed in: valid Python that defines the class."""

    source: str
    summary: str
    """What it does, or for a repair why it failed; may be empty."""


def read_plan(answer: Answer, question: Question) -> PlanAnswer:
    """Return the plan of an answer.

    Raises
    ------
    NoCandidate
        It was declined, cut off, empty, or holds no advice.
    """
    fields = _fields(answer, question, ("advice", "title"))
    if fields is not None:
        advice, title = _said(fields, "advice", MAX_ADVICE), one_line(_string(fields.get("title")), TITLE)
        annotated = unwrapped(_string(fields.get("annotated_source")))
        saving = fields.get("expected_saving_ms")
    else:
        text = answer.text[:MAX_ANSWER]
        blocks = [block.code for block in code_blocks(text) if block.language in PYTHON]
        annotated = max(blocks, key=lambda code: ("IMPROVE" in code, len(code)), default="")
        advice, title, saving = capped(clean(without_blocks(text)), MAX_ADVICE).strip(), "", None
    if not advice and not title:
        raise NoCandidate("The plan agent answered without a plan.", text=_kept(answer))
    title = title or one_line(_first_line(advice), TITLE)
    annotated = encodable(annotated.replace("\r\n", "\n")) if len(annotated) <= MAX_SOURCE else ""
    return PlanAnswer(title, advice or title, annotated, _milliseconds(saving))


def read_kernel(answer: Answer, question: Question, class_name: str) -> KernelAnswer:
    """Return the candidate of an answer.

    Raises
    ------
    NoCandidate
        It was declined, cut off, empty, too long, is not Python, or does not define `class_name`.
    """
    fields = _fields(answer, question, ("source", "code"))
    if fields is not None:
        source = unwrapped(_string(fields.get("source") or fields.get("code")))
        summary = _said(fields, "summary", MAX_ADVICE) or _said(fields, "cause", MAX_ADVICE)
    else:
        text = answer.text[:MAX_ANSWER]
        source = _from_text(text, class_name)
        summary = capped(clean(without_blocks(text)), MAX_ADVICE).strip() if "```" in text or "~~~" in text else ""
    return KernelAnswer(_checked(source, answer, class_name), summary)


def _fields(answer: Answer, question: Question, wanted: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what was handed in; None if there is text to be read instead."""
    if answer.stop is StopReason.REFUSAL:
        said = one_line(answer.message, 200).rstrip(".")
        if "declined" not in said:  # a service of another make may say why alone
            said = f"The model declined to answer{': ' + said if said else ''}"
        raise NoCandidate(f"{said}.", text=_kept(answer))
    if answer.stop is StopReason.MAX_TOKENS:
        raise NoCandidate(
            f"The answer was cut off at {question.max_tokens} tokens: raise {question.role.value}.max_tokens, or lower "
            f"{question.role.value}.effort.",
            text=_kept(answer),
        )
    given = answer.tool_input
    if isinstance(given, dict) and any(_string(given.get(name)).strip() for name in wanted):
        return given
    if not answer.text.strip():
        said = one_line(answer.message, 200).rstrip(".")
        reason = f"The answer could not be used: {said}." if said else "The answer was empty."
        raise NoCandidate(reason, text=_kept(answer))
    found = json_object(answer.text[:MAX_ANSWER])
    if found is not None and any(_string(found.get(name)).strip() for name in wanted):
        return found
    if answer.message and answer.text.lstrip().startswith("{") and not code_blocks(answer.text[:MAX_ANSWER]):
        # What was handed in, as far as it came: no prose that a plan could be read from.
        raise NoCandidate(f"{one_line(answer.message, 200).rstrip('.')}.", text=_kept(answer))
    return None


def _from_text(text: str, class_name: str) -> str:
    """Return the source in a text: the largest block that defines the class, else the largest, else all of it."""
    defines = re.compile(rf"^[ \t]*class[ \t]+{re.escape(class_name)}\b", re.MULTILINE)
    blocks = [block.code for block in code_blocks(text) if block.language in PYTHON]
    if blocks:
        return max(blocks, key=lambda code: (defines.search(code) is not None, len(code)))
    return text if defines.search(text) else ""


def _checked(source: str, answer: Answer, class_name: str) -> str:
    """Return a source without markers, as a file that Python can read and that defines the class."""
    if not source.strip():
        raise NoCandidate("The answer holds no Python source.", text=_kept(answer))
    if len(source) > MAX_SOURCE:
        raise NoCandidate(
            f"The source is too long: {len(source):,} characters, {MAX_SOURCE:,} at most.", text=capped(source, _KEPT)
        )
    source = source.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    if readable(source):
        source = strip(source)
    source = source.strip("\n") + "\n"
    kept = capped(encodable(source), _KEPT)
    if encodable(source) != source:
        raise NoCandidate("The source holds characters that no file can hold.", text=kept)
    try:
        tree = parse(source)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        said = one_line(error.msg or "invalid syntax", 200)
        raise NoCandidate(f"The source is not valid Python: {where}{said}.", text=kept) from error
    try:
        defined = bool(find_class(tree, class_name))
    except RecursionError:
        raise NoCandidate("The statements of the source are nested too deeply.", text=kept) from None
    if not defined:
        raise NoCandidate(f"The source defines no class {class_name}.", text=kept)
    return source


def _kept(answer: Answer) -> str:
    """Return what can be kept of an answer that cannot be used."""
    if answer.text.strip():
        return capped(encodable(answer.text), _KEPT)
    if answer.tool_input:
        source = _string(answer.tool_input.get("source"))
        try:
            return capped(encodable(source or json.dumps(answer.tool_input, default=str)[: 2 * _KEPT]), _KEPT)
        except (ValueError, RecursionError):
            return ""
    return ""


def _string(value: object) -> str:
    """Return a text; lines in a list are joined, everything else is nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        return "\n".join(line.rstrip("\n") for line in value) + "\n"
    return ""


def _said(fields: dict[str, Any], name: str, limit: int) -> str:
    return capped(clean(_string(fields.get(name))[: 20 * limit]), limit).strip()


def _first_line(text: str) -> str:
    lines = (re.sub(r"[*_`]{2,}", "", line).strip("#*_ \t") for line in text.splitlines())
    return next((line for line in lines if line), "")


def _milliseconds(value: object) -> float | None:
    """Return a number of milliseconds that makes sense, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0 <= number < 1e9 else None
