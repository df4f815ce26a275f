"""Reading an answer of a chat completions API as it streams in.

Chunks are taken as hostile as the events of `reading` are, whose rules and limits hold for what they add up to. See
https://platform.openai.com/docs/api-reference/chat-streaming; servers that show their model's thinking do so in
`reasoning_content` (vLLM, LM Studio) or `reasoning` (OpenRouter, Ollama).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stark_lsp.agents.models.reading import AnswerReader, ToolUse, clean_text, dumped, index_of, mapping

_STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
"""Why an answer ended, in the words of `reading`."""


class ChunkReader(AnswerReader):
    """Adds chunks up to an answer."""

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take one chunk."""
        if not self.started:
            self.started = True
            model = event.get("model")
            self._model = clean_text(model)[:200] if isinstance(model, str) else ""
        choices = event.get("choices")
        if isinstance(choices, list) and choices:
            self._choose(mapping(choices[0]))
        # Some tell tokens all along. What counts comes with the reason of the end, or in a chunk of its own behind it.
        self._take_usage(mapping(event.get("usage")))
        self.over = self._counted

    def take(self, message: Mapping[str, Any]) -> bool:
        """Take a whole answer, which some servers send in place of a stream; return whether it is one."""
        if not message.get("choices"):
            return False
        self.finished = True
        self.feed(message)
        return True

    def _choose(self, choice: Mapping[str, Any]) -> None:
        delta = mapping(choice.get("delta") or choice.get("message"))
        content = delta.get("content")
        for part in content if isinstance(content, list) else [content]:  # Mistral's reasoning models send parts
            self._say(part.get("text") if isinstance(part, Mapping) else part)
        self._hide(delta.get("reasoning_content") or delta.get("reasoning"))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            before = self._details.get("explanation", "")
            self._details = {"explanation": f"{before}{refusal}"[:1000]}
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._call(mapping(call))
        stop = choice.get("finish_reason")
        if isinstance(stop, str) and stop:
            self._stop = "refusal" if self._details else _STOPS.get(stop, stop)
            self.finished = True

    def _call(self, call: Mapping[str, Any]) -> None:
        function = mapping(call.get("function"))
        index, called = index_of(call), call.get("id")
        begun = self._tools.get(index)
        if begun is not None and called and begun.called not in (None, called):
            # Ollama and Gemini number all calls 0.
            self._tools[~len(self._tools)] = self._tools.pop(index)
        tool = self._tools.setdefault(index, ToolUse(""))
        tool.called = tool.called or called
        name, part = function.get("name"), function.get("arguments")
        part = dumped(part) if isinstance(part, Mapping) else part
        tool.name = tool.name or (name if isinstance(name, str) else "")
        if isinstance(part, str):
            tool.parts.append(part)
            self._size += len(part)

    def _take_usage(self, usage: Mapping[str, Any]) -> None:
        details = mapping(usage.get("prompt_tokens_details"))
        cached = {
            "cache_read_input_tokens": details.get("cached_tokens"),
            "cache_creation_input_tokens": details.get("cache_write_tokens"),
        }
        self._count(
            {**cached, "input_tokens": usage.get("prompt_tokens"), "output_tokens": usage.get("completion_tokens")}
        )
        if "prompt_tokens" in usage and "input_tokens" in self._usage:
            # What was cached is counted among the tokens of the prompt here.
            of_cache = sum(self._usage.get(name, 0) for name in cached)
            self._usage["input_tokens"] = max(0, self._usage["input_tokens"] - of_cache)
