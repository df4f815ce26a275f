"""Untrusted text stays text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from stark_lsp.server.text.markup import code, escaped, plain, tamed, unmarked

HOSTILE = st.text(alphabet="ab`[]()!<>#*_\\\n\r\t\x00\u202e:/", max_size=40)


@given(HOSTILE)
def test_plain_text_is_one_line_without_control_characters(text: str) -> None:
    assert not re.search(r"[\x00-\x1f\u202e]", plain(text))


@given(HOSTILE)
def test_inline_code_cannot_end_early(text: str) -> None:
    shown = code(text)
    if shown:
        ticks = re.match(r"`+", shown)
        assert ticks is not None
        inner = shown[len(ticks[0]) : -len(ticks[0])]
        assert ticks[0] not in inner.strip("`") or len(max(re.findall(r"`+", inner), key=len)) < len(ticks[0])


@given(HOSTILE)
def test_escaped_text_has_no_live_markup(text: str) -> None:
    bare = re.sub(r"\\.", "", escaped(text))
    assert not re.search(r"[`*_\[\]<>#]", bare)


def test_escaping_keeps_the_words() -> None:
    assert unmarked(escaped("a_b *c* [d](e)")) == "a_b *c* [d](e)"


def test_an_advice_keeps_its_emphasis_lists_and_code() -> None:
    advice = "Fuse **both** steps:\n\n- read once\n- write once\n\n```python\ny = x[0] < 1\n```\nUse `a[i]` here."
    assert tamed(advice) == advice


def test_images_links_html_and_autolinks_of_an_advice_are_shown_literally() -> None:
    shown = tamed('![x](https://evil/p.png) [run](command:stark.accept) <img src="x"> https://evil')
    assert "![" not in shown.replace("!\\[", "")
    assert "](" not in shown.replace("\\](", "")
    assert "<" not in shown
    assert "https:" not in shown
    assert "command:" not in shown


def test_an_open_fence_of_an_advice_is_closed() -> None:
    assert tamed("```\ncode").endswith("```")
    assert tamed("````\n```\ncode").endswith("\n````")


def test_long_texts_are_cut() -> None:
    assert len(plain("x" * 999, 50)) == 50
    assert len(tamed("x" * 9999, 50)) == 50


def test_plain_text_clients_get_no_markup() -> None:
    assert unmarked("**A** `b` \\[c\\] &lt;d\n```\ncode\n```\n# T") == "A b [c] <d\ncode\nT"


BAIT = "[a](https://evil) ![b](https://evil/p.png) <img src=c> <https://evil>"
PIECES = st.lists(
    st.sampled_from(["`", "``", "```", "~~~", "\\", "\n", "\n\n", "\n- ", "\n> ", "  ", "    ", "x", "py", BAIT]),
    max_size=14,
)


def live(markdown: str) -> list[str]:
    """Return the tags by which a reader of Markdown would link or load something."""
    return re.findall(r"<(?:a|img)\b", MarkdownIt("commonmark", {"html": True}).render(markdown))


@pytest.mark.parametrize(
    "advice",
    [
        f"`` {BAIT} `",
        f"`\n`{BAIT}`",
        f"\\`{BAIT}`",
        f"``` `\n{BAIT}",
        f"- a\n  ```\n{BAIT}",
        f"```\na\n    ```\n```\n{BAIT}",
        f"> ```\n{BAIT}\n> ```",
        f"~~~ `\n```\n~~~\n{BAIT}",
    ],
)
def test_nothing_in_an_advice_links_or_loads_by_half_a_piece_of_code(advice: str) -> None:
    assert live(tamed(advice)) == []


@given(PIECES)
def test_nothing_in_an_advice_links_or_loads(pieces: list[str]) -> None:
    advice = "".join(pieces)
    assert live(f"**A title**\n\n{tamed(advice)}\n\n**More**") == []


def test_plain_text_of_an_advice_full_of_backticks_comes_at_once() -> None:
    begun = time.process_time()
    unmarked("".join("`" * number + "a" for number in range(1, 110)) + "\n" * 6000 + "`a" * 3000)
    assert time.process_time() - begun < 0.5
