"""Prices are data, and what is not known is not guessed."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents.models import names, prices
from stark_lsp.agents.models.prices import Price, Prices
from stark_lsp.core.conversation import Usage
from stark_lsp.core.errors import BadInput


def test_the_list_says_where_it_is_from_and_when_it_was_true() -> None:
    listed = prices.load()
    assert listed.source.startswith("https://")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", listed.date)


def test_every_model_of_the_list_is_a_name_and_its_prices_are_in_order() -> None:
    for name, price in prices.load().models.items():
        assert names.parse(name) is not None, name
        assert 0 < price.cache_read < price.input < price.cache_write < price.output, name
        assert price.long is None or price.long.input > price.input, name


def test_the_default_model_has_a_price() -> None:
    assert prices.load().of(names.default_model()) is not None


def test_a_dated_name_has_the_price_of_the_name_without() -> None:
    listed = prices.load()
    assert listed.of("claude-haiku-4-5-20251001") == listed.models["claude-haiku-4-5"]


@pytest.mark.parametrize("name", ["claude-sonnet-9", "sonnet", "", "qwen3-coder", "claude-sonnet"])
def test_an_unlisted_model_has_no_price(name: str) -> None:
    listed = prices.load()
    assert listed.of(name) is None
    assert listed.cost(name, Usage(output_tokens=5)) is None


def test_a_call_costs_the_sum_of_its_kinds_of_tokens() -> None:
    price = Price(2.0, 2.5, 0.1, 10.0)
    usage = Usage(1_000_000, 2_000_000, 3_000_000, 4_000_000)
    assert price.cost(usage) == pytest.approx(2.0 + 5.0 + 0.3 + 40.0)


def test_a_long_question_costs_by_its_own_prices() -> None:
    price = prices.load().models["claude-haiku-5-5"]
    assert price.cost(Usage(input_tokens=100_000)) == pytest.approx(0.01)
    assert price.cost(Usage(input_tokens=100_001)) == pytest.approx(0.0500005)
    assert price.cost(Usage(cache_read_tokens=100_001)) == pytest.approx(0.05 * 0.100001)


_price = st.builds(Price, *(st.floats(0, 100) for _ in range(4)))
_with_long = st.builds(
    lambda base, above, long: Price(base.input, base.cache_write, base.cache_read, base.output, above, long),
    _price,
    st.integers(0, 200_000),
    _price,
)
_usage = st.builds(Usage, *(st.integers(0, 200_000) for _ in range(4)))


@given(_price | _with_long, _usage)
def test_the_bound_is_never_below_the_cost(price: Price, usage: Usage) -> None:
    assert price.most(usage) >= price.cost(usage) - 1e-12


@given(_usage)
def test_what_is_free_costs_nothing(usage: Usage) -> None:
    assert prices.prices_of("replay").cost("anything", usage) == 0.0
    assert Price(0.0, 0.0, 0.0, 0.0).most(usage) == 0.0


def test_a_users_list_adds_models_and_takes_the_place_of_entries(tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text(
        'date = "2027-01-01"\n'
        "[models.qwen3-coder]\ninput = 0\ncache_write = 0\ncache_read = 0\noutput = 0\n"
        "[models.claude-sonnet-5-5]\ninput = 1\ncache_write = 1\ncache_read = 1\noutput = 1\n"
    )
    listed = prices.load(own)
    assert listed.of("qwen3-coder") == Price(0, 0, 0, 0)
    assert listed.of("claude-sonnet-5-5") == Price(1, 1, 1, 1)
    assert listed.of("claude-opus-5-5") == prices.load().of("claude-opus-5-5")
    assert listed.date == "2027-01-01"


def test_the_environment_may_name_the_users_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "mine.toml"
    monkeypatch.setenv(prices.PRICES_VARIABLE, str(own))
    with pytest.raises(BadInput, match="no such price list"):
        prices.load()
    own.write_text("[models.mine]\ninput = 1\ncache_write = 1\ncache_read = 1\noutput = 1\n")
    assert prices.load().of("mine") == Price(1, 1, 1, 1)


def test_without_a_users_list_the_built_in_one_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert prices.load().models


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "models = 3",
        "[models]\nx = 3",
        "[models.x]\ninput = 1",
        "[models.x]\ninput = -1\ncache_write = 1\ncache_read = 1\noutput = 1",
        "[models.x]\ninput = nan\ncache_write = 1\ncache_read = 1\noutput = 1",
        "[models.x]\ninput = true\ncache_write = 1\ncache_read = 1\noutput = 1",
        '[models.x]\ninput = "1"\ncache_write = 1\ncache_read = 1\noutput = 1',
        "[models.x]\ninput = 1\ncache_write = 1\ncache_read = 1\noutput = 1\nlong = {above = 5}",
        "[models.x]\ninput = 1\ncache_write = 1\ncache_read = 1\noutput = 1\nlong = 7",
    ],
)
def test_a_list_that_is_none_is_refused_by_name(tmp_path: Path, text: str) -> None:
    own = tmp_path / "prices.toml"
    own.write_text(text)
    with pytest.raises(BadInput) as caught:
        prices.load(own)
    assert str(own) in str(caught.value)
    assert caught.value.cure


def test_a_list_that_is_no_text_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read"):
        prices.load(own)


def test_each_kind_of_model_has_its_list() -> None:
    assert prices.prices_of("replay").cost("anything", Usage(output_tokens=1)) == 0.0
    assert prices.prices_of("editor") == Prices()
    assert prices.prices_of("anthropic").models
