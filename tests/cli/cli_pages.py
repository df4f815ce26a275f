"""The HTML page of a run as a test reads it."""

from __future__ import annotations

import base64
import hashlib
import html.parser

VOID = {"meta", "br", "img", "input", "link"}


class Page(html.parser.HTMLParser):
    """What is on a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[tuple[str, str]] = []
        self.texts: dict[str, str] = {}
        """Text below each element with an id."""
        self.style = ""
        self.feed(text)
        self.close()
        assert not self.open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append((tag, found.get("id", "")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if any(tag == "style" for tag, _ in self.open):
            self.style += data
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data
        if self.open and self.open[-1][0] not in ("style", "title"):
            self.texts[""] = self.texts.get("", "") + data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


def check(page: Page) -> None:
    """Check that a page is inert and hangs together."""
    allowed = {
        *("html", "head", "meta", "title", "style", "body", "header", "main", "nav", "section", "article", "div"),
        *("h1", "h2", "h3", "h4", "p", "a", "b", "span", "ul", "ol", "li", "dl", "dt", "dd", "br", "pre", "code"),
        *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary"),
        *("svg", "symbol", "circle", "path", "rect", "line", "text", "use", "strong", "em", "blockquote", "hr"),
    }
    assert {tag for tag, _ in page.tags} <= allowed
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") or name in ("style", "src", "srcset") for name in attributes), tag
        assert attributes.get("href", "#").startswith("#")
    policy = next(one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    ids = page.ids()
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        if attributes.get("href", "#") != "#":
            assert attributes["href"][1:] in ids
        for name in attributes.get("aria-labelledby", "").split():
            assert name in ids
    assert "\x1b" not in page.texts[""]
    assert "\u202e" not in page.texts[""]
