"""What the site has besides `docs/`: the pages of the root, and links that fit where each page then is."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {name: name.lower() for name in ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")} | {"README.md": "index.md"}


def on_files(files: Files, config: Any) -> Files:
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    at = page.file.src_uri
    folder = "" if at in PAGES.values() else posixpath.dirname(f"docs/{at}")

    def moved(link: re.Match[str]) -> str:
        text, path, place = link.groups(default="")
        target = posixpath.normpath(posixpath.join(folder, path))
        if target in PAGES or target.startswith("docs/"):
            new = PAGES.get(target, target.removeprefix("docs/"))
            return f"[{text}]({posixpath.relpath(new, posixpath.dirname(at) or '.')}{place})"
        # A file of the repository that the site does not have. What is nowhere stays, and fails the build.
        return text if (ROOT / target).exists() else link[0]

    # Labels by which tests find blocks.
    markdown = re.sub(r"^```(\w+) \S+$", r"```\1", markdown, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\(((?!\w+:)[^)\s#]+)(#[^)\s]*)?\)", moved, markdown)
