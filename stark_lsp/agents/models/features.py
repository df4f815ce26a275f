"""What a model takes: guessed from its name, learned from what the service refuses.

A request that a service refuses because of one parameter is asked again without it, and the parameter is left away from
then on. What is learned holds for the process, for one model of one server.
"""

from __future__ import annotations

import re
from enum import Enum

from stark_lsp.agents.models import names


class Feature(str, Enum):
    """A part of a request that not every model takes."""

    TEMPERATURE = "temperature"
    """The sampling temperature."""
    EFFORT = "effort"
    """`output_config.effort` or `reasoning_effort`: how much to think."""
    FORCED_TOOL = "tool_choice"
    """Being made to hand in by the tool, instead of being asked to."""
    CACHE = "cache_control"
    """Marks of what may be cached."""
    TOOL = "tool"
    """Tools at all."""
    MAX_TOKENS = "max_tokens"
    """The longest answer by this name, instead of `max_completion_tokens`."""
    LIMIT = "limit"
    """A longest answer at all, by whichever name; not learned, but left away for one question."""
    USAGE = "stream_options"
    """Asking for the tokens at the end of a stream."""


_REFUSALS = (
    # "`temperature` is deprecated for this model."
    (Feature.TEMPERATURE, re.compile(r"\btemperature\b|\bsampling param", re.IGNORECASE)),
    # "This model does not support the effort parameter."
    (Feature.EFFORT, re.compile(r"(?:\b|_)effort\b|\boutput_config\b", re.IGNORECASE)),
    # 'tool_choice: type "tool" and "any" are not supported for this model.'
    # "Thinking may not be enabled when tool_choice forces tool use."
    (Feature.FORCED_TOOL, re.compile(r"\btool_choice\b|\btool choice\b|\bforced tool\b", re.IGNORECASE)),
    (Feature.CACHE, re.compile(r"\bcache_control\b", re.IGNORECASE)),
    # "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    (Feature.MAX_TOKENS, re.compile(r"\bmax_tokens\b.*\b(?:not supported|use '?max_completion_tokens)", re.IGNORECASE)),
    # OpenAI: "max_tokens is too large: 32000. This model supports at most 16384 completion tokens"
    # vLLM: "max_tokens=32000 cannot be greater than max_model_len=16384"; before, also where the prompt leaves no room:
    # "you requested 32000 output tokens", "38790 tokens (6790 in the messages, 32000 in the completion)"
    (
        Feature.LIMIT,
        re.compile(
            r"\bmax_(?:completion_)?tokens\b.*\b(?:too large|cannot be greater)\b"
            r"|\brequested\b.*\b(?:output|completion)\b",
            re.IGNORECASE,
        ),
    ),
    (Feature.USAGE, re.compile(r"\bstream_options\b|\binclude_usage\b", re.IGNORECASE)),
    # Ollama: "registry.ollama.ai/library/… does not support tools"
    # OpenRouter: "No endpoints found that support tool use."
    # llama.cpp: "tools param requires --jinja flag", with status 500
    # vLLM: '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    (
        Feature.TOOL,
        re.compile(
            r"\bnot support(?:ed)?\b.*\btools?\b|\btools?\b.*\bnot (?:be )?(?:supported|enabled)\b"
            r"|--enable-auto-tool-choice|\btools param requires --jinja\b|\bno endpoints found that support tool use\b",
            re.IGNORECASE,
        ),
    ),
)
"""Words by which services refuse each, most telling first."""


class Features:
    """What is known of the models of all servers."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[Feature, bool]] = {}

    def takes(self, server: str, model: str, feature: Feature) -> bool | None:
        """Return whether a model takes something; None if that is not known yet."""
        learned = self._known.get((server, model), {}).get(feature)
        if learned is not None:
            return learned
        if feature is Feature.TEMPERATURE and names.refuses_temperature(model):
            return False
        if feature is Feature.FORCED_TOOL and names.thinks_unasked(model):
            return False
        return None

    def learn(self, server: str, model: str, feature: Feature, takes: bool) -> None:
        """Remember whether a model takes something."""
        self._known.setdefault((server, model), {})[feature] = takes


def refused(message: str, sent: frozenset[Feature]) -> Feature | None:
    """Return which of the things that were sent a service's refusal is about, None if it is about none of them."""
    for feature, words in _REFUSALS:
        if feature in sent and words.search(message):
            return feature
    return None


LEARNED = Features()
"""What this process learned."""
