"""The words of the agents: templates in `prompts/`, which a user may override and edit while the server runs.

Every template is read anew whenever it is used: a file that was edited, added to an override folder or taken out of it
counts from the next question on, and nothing has to be watched. A question is asked every few seconds at most, and
reading its templates takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stark_lsp.core.errors import BadInput, Fault

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

SUFFIX = ".md"
_MISTAKES = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError, OSError)
"""What a user's template may raise besides Jinja's own errors."""


def built_in_dir() -> Path:
    """Return the folder of the templates that come with the package.

    Raises
    ------
    Fault
        The installation lacks them.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_prompts", package.parent / "prompts"):
        if folder.is_dir():
            return folder
    raise Fault("The templates of the agents are missing.", cure="Install stark-lsp again.", path=str(package))


class PromptLibrary:
    """Templates by name, for instance `advice/fuse-all`.

    Parameters
    ----------
    override_dirs
        Folders whose templates win over the built-in ones, the first first.
    """

    def __init__(self, override_dirs: Sequence[Path | str] = ()) -> None:
        self._folders = (*(Path(folder) for folder in override_dirs), built_in_dir())
        self._environment: SandboxedEnvironment | None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where templates are looked up, in order."""
        return self._folders

    def render(self, name: str, /, **values: Any) -> str:
        """Return a template filled in.

        Raises
        ------
        BadInput
            There is no such template, it does not parse, or it names a value that is not given.
        """
        from jinja2 import TemplateError, TemplateNotFound, TemplateSyntaxError

        try:
            return self._ready().get_template(name + SUFFIX).render(**values).strip() + "\n"
        except TemplateNotFound as error:
            raise self._missing(str(error.name or name + SUFFIX)) from error
        except TemplateSyntaxError as error:
            raise BadInput(
                f"The template does not parse: {error.message}.", path=error.filename or name, line=error.lineno
            ) from error
        except (TemplateError, *_MISTAKES) as error:
            raise BadInput(f"The template {name}{SUFFIX} cannot be filled in: {error}.") from error

    def text(self, name: str, /) -> str:
        """Return a file as it stands, nothing filled in, for instance `examples/raw/candidate.py`.

        Raises
        ------
        BadInput
            There is no such file, or it is not UTF-8.
        """
        from jinja2 import TemplateNotFound

        environment = self._ready()
        assert environment.loader is not None
        try:
            return environment.loader.get_source(environment, name)[0]
        except TemplateNotFound as error:
            raise self._missing(name) from error
        except (OSError, ValueError) as error:
            raise BadInput(f"The file {name} of the prompts cannot be read: {error}.") from error

    def _missing(self, name: str) -> BadInput:
        searched = ", ".join(str(folder) for folder in self._folders)
        return BadInput(f"There is no template {name}.", cure=f"Put it into one of: {searched}.")

    def _ready(self) -> SandboxedEnvironment:
        if self._environment is None:
            # Imported late: the server starts without it.
            from jinja2 import FileSystemLoader, StrictUndefined
            from jinja2.sandbox import SandboxedEnvironment

            from stark_lsp.agents.compiled import COMPILED

            self._environment = SandboxedEnvironment(
                loader=FileSystemLoader([str(folder) for folder in self._folders]),
                undefined=StrictUndefined,
                trim_blocks=True,
                lstrip_blocks=True,
                keep_trailing_newline=False,
                autoescape=False,
                cache_size=0,  # a cached template would hide one that was added to an override folder later
                bytecode_cache=COMPILED,
            )
        return self._environment
