"""What a model answered, read: a plan, a kernel, a fix; or why there is none.

An answer is handed in by a tool. A model that writes text instead is read as well: a JSON object with the tool's
fields, or a call that is written down, wherever it stands; else edits between the marks of search and replace, or the
largest block of Python that defines the class.
What is whole is taken, however it is wrapped; code that is cut off, no Python or without the class is a candidate all
the same: the judge says what is wrong with it, and the debug agent repairs it. Whatever comes is hostile text:
measured, never run here, and no path is made of it.
"""

from __future__ import annotations

import json
import math
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from stark_lsp.agents.blocks import (
    PYTHON,
    code_blocks,
    json_beginning,
    json_objects,
    search_replace,
    unwrapped,
    without_blocks,
)
from stark_lsp.agents.grounding.edits import unmarked
from stark_lsp.agents.patching import Edit, Misfit, applied
from stark_lsp.agents.texts import capped, clean, encodable, one_line
from stark_lsp.core.conversation import Answer, Question, Tool
from stark_lsp.core.roles import NoCandidate
from stark_lsp.core.status import ModelRole, StopReason
from stark_lsp.discovery.syntax import find_class, is_python, parse

MAX_SOURCE = 200_000
"""Characters a source may have."""
MAX_ANSWER = 2_000_000
"""Characters of text that are looked at."""
MAX_ADVICE = 20_000
TITLE = 100
_KEPT = 100_000
"""Characters of an answer that could not be used and are kept with the attempt."""
_WRITTEN = ("source", "code", "edits")
"""Fields by which a candidate is handed in."""
_CODE = re.compile(r"^[ \t+-]*(?:class|def)[ \t]+\w", re.MULTILINE)
"""What a source has somewhere, however broken it is."""


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
"""The tool of each role, where whole files are handed in."""
_EDITS = {
    "type": "array",
    "description": "In place of `source`: changes to the source that you were shown last, all made at once. What none "
    "of them names stays as it is.",
    "items": {
        "type": "object",
        "properties": {
            "search": _text(
                "Whole lines as they stand in that source, without marker comments; as many as it takes for them to "
                "occur there exactly once. Of a long piece its first and last lines will do, each of the two passages "
                "occurring once, with a line of `...` between them."
            ),
            "replace": _text("What takes their place; empty to take them out."),
        },
        "required": ["search", "replace"],
        "additionalProperties": False,
    },
}


_QUOTED = _text(
    "The marked places alone, one after the other: the lines to be changed as they stand, between the marker comments."
)
_COMBINES = {
    "type": "integer",
    "description": "Number of one other attempt whose code is to be taken along, where the question offers some.",
}


def tool_of(role: ModelRole, *, edits: bool, merging: bool = False) -> Tool:
    """Return the tool of a role.

    Parameters
    ----------
    edits
        Whether those of a source are taken in place of a whole file, and quotations in a plan.
    merging
        Whether a plan may name another attempt to combine with.
    """
    tool = TOOLS[role]
    properties, required = dict(tool.schema["properties"]), tool.schema["required"]
    if role is ModelRole.PLAN:
        properties |= {"annotated_source": _QUOTED} if edits else {}
        properties |= {"combine_with": _COMBINES} if merging else {}
    elif edits:
        properties["edits"] = _EDITS
        required = [name for name in required if name != "source"]
    return replace(tool, schema={**tool.schema, "properties": properties, "required": required})


@dataclass(frozen=True)
class PlanAnswer:
    """A plan as it was handed in; its marks are not checked yet."""

    title: str
    advice: str
    annotated_source: str
    """Empty if there was none that can be used."""
    expected_saving_ms: float | None = None
    combines: int | None = None
    """Number of another attempt; whether it was offered is not checked yet."""


@dataclass(frozen=True)
class KernelAnswer:
    """A candidate as it was handed in. Whether it is Python and has the class is for the judge to say, as of any other
    failure, so that the debug agent gets it."""

    source: str
    summary: str
    """What it does, or for a repair why it failed; may be empty."""
    remark: str = ""
    """What had to be made good, or that it was cut off; empty if nothing."""


def read_plan(answer: Answer, question: Question) -> PlanAnswer:
    """Return the plan of an answer.

    Raises
    ------
    NoCandidate
        It was declined, cut off, empty, or holds no advice.
    """
    fields, cut = _fields(answer, question, ("advice", "title"))
    cut_off = answer.stop is StopReason.MAX_TOKENS
    if cut in ("advice", "title") or (cut_off and not fields):
        reason = _cut_off(answer, question) if cut_off else f"{one_line(answer.message, 200).rstrip('.')}."
        raise NoCandidate(reason, text=_kept(answer))
    if fields:
        advice, title = _said(fields, "advice", MAX_ADVICE), one_line(_string(fields.get("title")), TITLE)
        annotated = unwrapped(_string(fields.get("annotated_source")))
        saving, other = fields.get("expected_saving_ms"), fields.get("combine_with")
    else:
        text = _spoken(answer)
        blocks = [block.code for block in code_blocks(text) if block.language in PYTHON]
        annotated = max(blocks, key=lambda code: ("IMPROVE" in code, len(code)), default="")
        advice, title, saving, other = capped(clean(without_blocks(text)), MAX_ADVICE).strip(), "", None, None
    if not advice and not title:
        raise NoCandidate("The plan agent answered without a plan.", text=_kept(answer))
    title = title or one_line(_first_line(advice), TITLE)
    annotated = encodable(annotated.replace("\r\n", "\n")) if len(annotated) <= MAX_SOURCE else ""
    combines = other if isinstance(other, int) and not isinstance(other, bool) else None
    return PlanAnswer(title, advice or title, annotated, _milliseconds(saving), combines)


def read_kernel(
    answer: Answer, question: Question, class_name: str, old: str = "", base: str | None = None
) -> KernelAnswer:
    """Return the candidate of an answer; one whose class kept its name, `old`, is given `class_name`.

    Parameters
    ----------
    base
        The source that edits are made to; None takes whole files alone.

    Raises
    ------
    NoCandidate
        It was declined, empty, too long, or holds no Python; or its edits do not fit.
    """
    fields, cut = _fields(answer, question, _WRITTEN)
    wanted = tuple(name for name in (class_name, old) if name)
    text = _spoken(answer)
    # Where edits are handed in, some write into `source` that it is in them, or the edits themselves.
    given = _string(fields.get("source"))
    written: object = search_replace(given if fields else text)
    if fields and not written and not _CODE.search(given):
        written = fields.get("edits")
    edits = _edits(written) if base is not None else ()
    if base is not None and edits:
        try:
            source, whole = applied(base, edits), bool(fields) or answer.stop is not StopReason.MAX_TOKENS
        except Misfit as trouble:
            raise NoCandidate(f"The edits do not fit. {trouble}", text=_handed_in(answer) or _kept(answer)) from trouble
        summary = _summary(fields) if fields else _around(text)
    elif fields:
        given = _given(fields)
        # Some wrap it in a block, or write around it what belongs into the summary.
        source = given if is_python(given) else _in_block(given, wanted)
        whole = cut not in ("source", "code")
        summary = _summary(fields)
    else:
        source, whole = _from_text(text, wanted)
        source = source or (text if _defines(wanted).search(text) else "")
        whole = whole or answer.stop is not StopReason.MAX_TOKENS
        summary = _around(text)
    remark = (
        "" if whole else _cut_off(answer, question) if answer.stop is StopReason.MAX_TOKENS else "The answer broke off."
    )
    source = _checked(source, answer, "" if whole else remark)
    renamed = _renamed(source, old, class_name)
    if renamed != source and not remark and not edits:
        remark = f"The class was still called {old}; it was renamed."
    return KernelAnswer(renamed, summary, remark)


def completed(answer: Answer, source: str) -> Answer:
    """Return an answer by a tool that came without a source or edits as one with this source.

    Raises
    ------
    NoCandidate
        What it came with is no source and no edits; or a further tool was called with neither, and there is no source.
    """
    given = answer.tool_input
    if given is None or any(_holds(given, name) for name in _WRITTEN):
        return answer
    for name in _WRITTEN:
        value = given.get(name)
        if value.strip() if isinstance(value, str) else value:
            form = "a list of objects with `search` and `replace`" if name == "edits" else "a text"
            raise NoCandidate(f"What you give as `{name}` cannot be used: it must be {form}.")
    if answer.called and not source:
        raise NoCandidate("You have written nothing yet: give your source.")
    return replace(answer, tool_input={**given, "source": source}) if source else answer


def _cut_off(answer: Answer, question: Question) -> str:
    role, limit = question.role.value, f"The answer was cut off at {question.max_tokens} tokens"
    said = one_line(answer.message, 200).rstrip(".") or limit
    larger = f"{role}.max_tokens" if said == limit else "the server's context"
    # For the model as well as for the user: one can be shorter, the other can set something.
    return f"{said}: it has to be shorter, or {larger} larger, or {role}.effort lower."


def _fields(answer: Answer, question: Question, wanted: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """Return what was handed in, and the name of the field it broke off in; nothing if there is text to be read."""
    if answer.stop is StopReason.REFUSAL:
        said = one_line(answer.message, 200).rstrip(".")
        if "declined" not in said:  # a service of another make may say why alone
            said = f"The model declined to answer{': ' + said if said else ''}"
        raise NoCandidate(f"{said}.", text=_kept(answer), final=True)
    text = _spoken(answer)
    broken = bool(answer.message) or answer.stop is StopReason.MAX_TOKENS
    beginning = json_beginning(text) if broken else ({}, "")
    # What stands in a text may be about something else, such as the `code` of an error.
    found = [
        one for one in json_objects(text) if "source" not in wanted or one.get("edits") or _CODE.search(_given(one))
    ]
    for given, cut in (*((one, "") for one in (answer.tool_input, *found)), beginning):
        if isinstance(given, dict) and any(_holds(given, name) for name in wanted):
            return given, cut
    if not text.strip() or (broken and text.lstrip().startswith("{") and not code_blocks(text)):
        # What was handed in, as far as it came, is no prose that a plan could be read from.
        said = one_line(answer.message, 200).rstrip(".")
        reason = f"The answer could not be used: {said}." if said else "The answer was empty."
        if not said and answer.tool_input and not any(name in answer.tool_input for name in wanted):
            reason = f"What was handed in has none of {', '.join(wanted)}."
        cut_off = answer.stop is StopReason.MAX_TOKENS
        if cut_off:
            reason = _cut_off(answer, question)
        # Who thought until the limit would do so again: the question would be the same.
        raise NoCandidate(reason, text=_kept(answer), final=cut_off and not text.strip())
    return {}, ""


def _spoken(answer: Answer) -> str:
    """Return what an answer says as text, without what it thinks before; some templates open that themselves."""
    text = answer.text[:MAX_ANSWER]
    _, ended, rest = text.partition("</think>")
    return rest if ended else "" if text.lstrip().startswith("<think>") else text


def _defines(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*class[ \t]+(?:{'|'.join(map(re.escape, names))})\b", re.MULTILINE)


def _from_text(text: str, names: tuple[str, ...]) -> tuple[str, bool]:
    """Return the block of a text that defines the class, else the largest, and whether it came to its end."""
    defines = _defines(names)
    blocks = [block for block in code_blocks(text) if block.language in PYTHON]
    found = max(blocks, key=lambda one: (defines.search(one.code) is not None, one.closed, len(one.code)), default=None)
    return (found.code, found.closed) if found is not None else ("", False)


def _in_block(given: str, names: tuple[str, ...]) -> str:
    """Return the block in a field that defines the class; without one, all of it."""
    found, _ = _from_text(given, names)
    return found if _defines(names).search(found) else unwrapped(given)


def _renamed(source: str, old: str, new: str) -> str:
    """Return a source whose class is called `new`, if it defines `old` in its place."""
    try:
        tree = parse(source)
        if not old or find_class(tree, new) or not find_class(tree, old):
            return source
        words = [word for word in tokenize.generate_tokens(StringIO(source).readline) if word.type == tokenize.NAME]
    except (SyntaxError, RecursionError, tokenize.TokenError):
        return source
    lines = list(StringIO(source))
    for word in reversed(words):
        (row, start), (_, end) = word.start, word.end
        line = lines[row - 1]
        if word.string == old and not line[:start].rstrip().endswith("."):
            lines[row - 1] = line[:start] + new + line[end:]
    return "".join(lines)


def _checked(source: str, answer: Answer, cut: str) -> str:
    """Return a source without markers, as text that a file can hold."""
    if not _CODE.search(source):
        raise NoCandidate(cut or "The answer holds no Python source.", text=_kept(answer))
    if len(source) > MAX_SOURCE:
        raise NoCandidate(
            f"The source is too long: {len(source):,} characters, {MAX_SOURCE:,} at most.", text=capped(source, _KEPT)
        )
    source = source.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    source = unmarked(source).strip("\n") + "\n"
    if encodable(source) != source:
        raise NoCandidate("The source holds characters that no file can hold.", text=capped(encodable(source), _KEPT))
    return source


def _kept(answer: Answer) -> str:
    """Return what can be kept of an answer that cannot be used."""
    if answer.text.strip():
        return capped(encodable(answer.text), _KEPT)
    return _handed_in(answer)


def _handed_in(answer: Answer) -> str:
    """Return what was handed in by the tool: the source, else its JSON."""
    given = answer.tool_input or {}
    source = _string(given.get("source"))
    try:
        return capped(encodable(source or (json.dumps(given, default=str)[: 2 * _KEPT] if given else "")), _KEPT)
    except (ValueError, RecursionError):
        return ""


def _edits(value: object) -> tuple[Edit, ...]:
    """Return edits without marker comments; nothing if these are none. Some hand in a single one, or all as JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value[:MAX_ANSWER])
        except (ValueError, RecursionError):
            return ()
    value = [value] if isinstance(value, dict) else value
    given = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    pairs = [(_string(one.get("search")), _string(one.get("replace"))) for one in given]
    return tuple(Edit(*(unmarked(text.replace("\r\n", "\n")) for text in pair)) for pair in pairs)


def _holds(given: Mapping[str, object], name: str) -> bool:
    """Whether a field has a text, or edits where it is for these."""
    value = given.get(name)
    return bool(_edits(value)) if name == "edits" else bool(_string(value).strip())


def _string(value: object) -> str:
    """Return a text; lines in a list are joined, everything else is nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        return "\n".join(line.rstrip("\n") for line in value) + "\n"
    return ""


def _given(fields: Mapping[str, object]) -> str:
    """Return the source that was handed in."""
    return _string(fields.get("source") or fields.get("code"))


def _summary(fields: dict[str, Any]) -> str:
    return _said(fields, "summary", MAX_ADVICE) or _said(fields, "cause", MAX_ADVICE)


def _around(text: str) -> str:
    """Return what a model says beside its code."""
    return capped(clean(without_blocks(text)), MAX_ADVICE).strip() if "```" in text or "~~~" in text else ""


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
