"""Names of Claude models: the default one, and what a name tells about what the model takes.

A name such as `claude-sonnet-4-5-20250929` is a line, a version and, at times, a date. What is told from it is only a
first guess that saves a refused question; `features` learns from what the service says.
"""

from __future__ import annotations

import platform
import re
import typing
from dataclasses import dataclass
from importlib import import_module

from stark_lsp.core.errors import BadInput

DEFAULT_LINE = "sonnet"
"""The paper's agents are Claude Sonnet 4 (Appendix B), which is retired; its successors in the same line stand in."""

_NAME = re.compile(
    r"(?:^|[./])claude-(?P<line>[a-z]+)-(?P<major>\d{1,2})(?:-(?P<minor>\d{1,2}))?(?:[-@](?P<date>\d{8}))?(?:[-@:]|$)"
)
_DATE = re.compile(r"[-@]\d{8}$")


@dataclass(frozen=True)
class ModelName:
    """What a name of a Claude model says."""

    line: str
    """`haiku`, `sonnet`, `opus` …"""
    version: tuple[int, int]
    """Major and minor."""
    date: str = ""
    """Date of the snapshot as `YYYYMMDD`, empty for the name without one."""


def parse(name: str) -> ModelName | None:
    """Return what `name` says; None if it is not the name of a Claude model in today's form."""
    match = _NAME.search(name.strip().lower())
    if match is None:
        return None
    return ModelName(match["line"], (int(match["major"]), int(match["minor"] or 0)), match["date"] or "")


def undated(name: str) -> str:
    """Return a name without the date of its snapshot."""
    return _DATE.sub("", name.strip())


def newest(names: typing.Iterable[str]) -> str | None:
    """Return the newest model of the default line; of two names of one version the one without a date."""
    found = [(parsed, name) for name in names if (parsed := parse(name)) is not None and parsed.line == DEFAULT_LINE]
    _, name = max(found, key=lambda entry: (entry[0].version, not entry[0].date, entry[0].date), default=(None, None))
    return name


def import_sdk(*modules: str) -> None:
    """Import an SDK, which takes a second or two.

    Raises
    ------
    BadInput
        It is not there, or does not work under this Python: parts of it are compiled for each version.
    """
    try:
        for module in modules:
            import_module(module)
    except ImportError as error:
        package, version = modules[0].partition(".")[0], platform.python_version()
        raise BadInput(
            f"The package {package}, by which the model is asked, cannot be imported by Python {version}: {error}.",
            cure=f"Run stark-lsp under another Python (VS Code: stark.server.interpreter) with {package} installed, or "
            "choose the playbook.",
        ) from error


def import_anthropic() -> None:
    """Import the SDK of the Messages API, as `import_sdk` does."""
    import_sdk("anthropic.resources.messages", "anthropic.types")


def known_to_sdk() -> tuple[str, ...]:
    """Return the model names that the installed SDK lists (`anthropic.types.model_param`); imports the SDK."""
    import_anthropic()
    from anthropic.types.model_param import ModelParam

    listed: list[str] = []
    for part in typing.get_args(ModelParam):
        listed += [name for name in typing.get_args(part) if isinstance(name, str)]
    return tuple(listed)


def default_model() -> str:
    """Return the newest model of the default line that the installed SDK lists; imports the SDK.

    Raises
    ------
    LookupError
        The SDK lists none.
    """
    name = newest(known_to_sdk())
    if name is None:
        raise LookupError(f"the SDK lists no model of the line {DEFAULT_LINE}")
    return name


def refuses_temperature(name: str) -> bool:
    """Whether a model is known to refuse sampling parameters: those after Claude Opus 4.6 do.

    See https://platform.claude.com/docs/en/api/messages/create and
    https://platform.claude.com/docs/en/about-claude/model-deprecations.
    """
    parsed = parse(name)
    return parsed is not None and parsed.version > (4, 6)


def thinks_unasked(name: str) -> bool:
    """Whether a model is known to think before it answers unless told not to: those from Claude 5 on do.

    A forced tool is refused together with thinking, by newer ones altogether
    (https://platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5), so these are left to choose the tool.
    """
    parsed = parse(name)
    return parsed is not None and parsed.version >= (5, 0)
