"""Names of models, and what is told from them."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents.models import names
from stark_lsp.agents.models.features import Feature, Features, refused


def test_the_default_is_the_newest_sonnet_of_the_installed_sdk() -> None:
    listed = names.known_to_sdk()
    sonnets = {name: names.parse(name) for name in listed if "sonnet" in name}
    chosen = names.default_model()
    assert chosen in sonnets
    best = sonnets[chosen]
    assert best is not None
    assert all(one is None or one.version <= best.version for one in sonnets.values())
    assert best.date == ""


@pytest.mark.parametrize(
    ("name", "line", "version", "date"),
    [
        ("claude-sonnet-5", "sonnet", (5, 0), ""),
        ("claude-sonnet-5-5", "sonnet", (5, 5), ""),
        ("claude-sonnet-4-5-20250929", "sonnet", (4, 5), "20250929"),
        ("claude-sonnet-4-20250514", "sonnet", (4, 0), "20250514"),
        ("anthropic/claude-opus-4-8", "opus", (4, 8), ""),
        ("us.anthropic.claude-opus-4-8-v1:0", "opus", (4, 8), ""),
        ("claude-haiku-4-5@20251001", "haiku", (4, 5), "20251001"),
    ],
)
def test_a_name_tells_line_version_and_date(name: str, line: str, version: tuple[int, int], date: str) -> None:
    parsed = names.parse(name)
    assert parsed is not None
    assert (parsed.line, parsed.version, parsed.date) == (line, version, date)


@pytest.mark.parametrize("name", ["", "qwen3-coder", "claude", "claude-mythos-preview", "claude-3-5-sonnet-20241022"])
def test_other_names_tell_nothing(name: str) -> None:
    assert names.parse(name) is None


@given(
    st.permutations(["claude-sonnet-4-6", "claude-sonnet-10", "claude-sonnet-5-5", "claude-sonnet-9-5-20300101", "x"])
)
def test_versions_are_compared_as_numbers(listed: list[str]) -> None:
    assert names.newest(listed) == "claude-sonnet-10"


def test_of_one_version_the_name_without_a_date_is_taken() -> None:
    assert names.newest(["claude-sonnet-4-5-20250929", "claude-sonnet-4-5"]) == "claude-sonnet-4-5"
    assert names.newest(["claude-opus-5"]) is None


@pytest.mark.parametrize(
    ("name", "temperature", "thinks"),
    [
        ("claude-sonnet-4-6", False, False),
        ("claude-opus-4-6", False, False),
        ("claude-opus-4-7", True, False),
        ("claude-sonnet-5", True, True),
        ("claude-haiku-5-5", True, True),
        ("llama-3", False, False),
    ],
)
def test_what_is_guessed_from_a_name(name: str, temperature: bool, thinks: bool) -> None:
    assert names.refuses_temperature(name) is temperature
    assert names.thinks_unasked(name) is thinks


def test_what_was_learned_wins_over_what_was_guessed() -> None:
    features = Features()
    assert features.takes("s", "claude-sonnet-5", Feature.TEMPERATURE) is False
    features.learn("s", "claude-sonnet-5", Feature.TEMPERATURE, takes=True)
    assert features.takes("s", "claude-sonnet-5", Feature.TEMPERATURE) is True


@pytest.mark.parametrize(
    ("message", "feature"),
    [
        ("`temperature` is deprecated for this model.", Feature.TEMPERATURE),
        ("temperature: Extra inputs are not permitted", Feature.TEMPERATURE),
        ("This model does not support the effort parameter.", Feature.EFFORT),
        ("output_config: Extra inputs are not permitted", Feature.EFFORT),
        ('tool_choice: type "tool" and "any" are not supported for this model.', Feature.FORCED_TOOL),
        ("Thinking may not be enabled when tool_choice forces tool use.", Feature.FORCED_TOOL),
        ("messages.0.content.0.text.cache_control: Extra inputs are not permitted", Feature.CACHE),
        ("registry.ollama.ai/library/tiny does not support tools", Feature.TOOL),
        ("max_tokens: must be greater than or equal to 1", None),
    ],
)
def test_a_refusal_names_what_it_is_about(message: str, feature: Feature | None) -> None:
    assert refused(message, frozenset(Feature)) is feature
    assert refused(message, frozenset()) is None


def test_a_server_that_cannot_let_the_model_choose_a_tool_is_asked_without_tools() -> None:
    message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    assert refused(message, frozenset({Feature.TOOL, Feature.CACHE})) is Feature.TOOL


def test_a_python_that_the_sdk_has_no_compiled_part_for_is_named_with_the_cure() -> None:
    program = (
        "import sys; sys.modules['pydantic_core'] = None\n"
        "from stark_lsp.agents.models import names\n"
        "from stark_lsp.core.errors import BadInput\n"
        "try:\n    names.default_model()\nexcept BadInput as error:\n    print(error.message, error.cure)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "cannot be imported by Python 3." in told
    assert "stark.server.interpreter" in told
