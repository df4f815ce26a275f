"""The settings of the `stark` section, read: `setting_list` has their names, allowed values and defaults.

`schema` gives them to the VS Code extension's manifest and the docs, `read` turns what a client sends
into a `Configuration`. A value that cannot be used is reported with its name and what is allowed, and
its default takes its place.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stark_lsp.core import adjust, agent_adjust
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.errors import BadInput
from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.setting import shown
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import DeviceChoice, Grounding, Isolation, KernelPlace, Mode, WriteMode
from stark_lsp.server.client.setting_list import OF_SEARCH, SETTINGS
from stark_lsp.server.text.folders import resolved

if TYPE_CHECKING:
    from stark_lsp.runs.options import RunOptions

_BY_NAME = {setting.name: setting for setting in SETTINGS}

CLIENT_ONLY = frozenset({"trace", "diffView", "provides", "server", "enable"})
"""Keys of the section that are for the editor's extension or negotiated at the start; not settings of a run."""


@dataclass(frozen=True)
class Configuration:
    """The settings in use."""

    values: dict[str, Any] = field(default_factory=dict)
    """Name to value, for every setting that was set to something usable."""

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting, its default if it is not set."""
        return self.values.get(name, _BY_NAME[name].default)

    @property
    def device(self) -> DeviceChoice:
        """`stark.device`."""
        return DeviceChoice(self["device"])

    @property
    def mode(self) -> Mode:
        """`stark.mode`."""
        return Mode(self["mode"])

    @property
    def write_mode(self) -> WriteMode:
        """`stark.writeMode`."""
        return WriteMode(self["writeMode"])

    @property
    def kernels(self) -> KernelPlace:
        """`stark.kernels`."""
        return KernelPlace(self["kernels"])

    def run_options(self, folder: str | None = None) -> RunOptions:
        """Return the options of a run; an unfinished run on an unchanged class is always taken up.

        Parameters
        ----------
        folder
            Where relative paths start (`folders`); None for the working folder.

        Raises
        ------
        BadInput
            The search settings contradict each other, or the folder with prompts is not there.
        """
        from stark_lsp.core.run import Budget
        from stark_lsp.runs.options import DEFAULT_DOLLARS, RunOptions

        attempts = int(self["attempts"])
        try:
            search = SearchSettings(
                system=self["system"],
                **{field: type(_BY_NAME[name].default)(self[name]) for name, field in OF_SEARCH.items()},
                attempts=attempts,
                in_flight=int(self["search.inFlight"]),
                any_length=self["anyLength"],
                seed=int(self["seed"]),
            )
        except ValueError as error:
            raise BadInput(f"The settings stark.search cannot be used: {error}.") from error
        agents = self.agents
        if self["paper"]:
            search, agents = as_in_paper(search, agents)
        seconds, tokens, dollars = self["timeLimit"], self["tokenLimit"], self["costLimit"]
        return RunOptions(
            write_mode=self.write_mode,
            model=_model(self["model"], folder),
            agents=agents,
            budget=Budget(
                attempts,
                None if seconds is None else float(seconds),
                None if tokens is None else int(tokens),
                None if dollars is None else float(dollars),
            ),
            default_dollars=DEFAULT_DOLLARS,
            search=search,
            evaluation=adjust.adjusted(
                EvaluationSettings(
                    rounds=int(self["timingRounds"]),
                    final_rounds=int(self["finalTimingRounds"]),
                    compile_baseline=self["compileBaseline"],
                    isolation=Isolation(self["isolation"]),
                ),
                self["evaluation"],
            ),
            interpreter=self.interpreter(folder),
            resume=True,
            complete=True,
            prompt_dirs=self._prompt_dirs(folder),
        )

    @property
    def agents(self) -> AgentSettings:
        """How a language model is asked."""
        settings = AgentSettings(
            dialect=self["dialect"],
            grounding=Grounding(self["grounding"]),
            profile=self["profileInPrompts"],
            playbook=self["playbookFirst"],
            notes=self["notes"],
        )
        return agent_adjust.adjusted(settings, self["agents"])

    def interpreter(self, folder: str | None = None) -> str | None:
        """Return the interpreter that is set, None if there is none; `folder` is where a relative path starts."""
        return resolved(self["interpreter"], folder) if self["interpreter"] else None

    def prompts(self, folder: str | None = None) -> str | None:
        """Return `stark.promptsDirectory` as an absolute path; `folder` is where a relative one starts."""
        named = self["promptsDirectory"]
        return resolved(named, folder) if named else None

    def _prompt_dirs(self, folder: str | None) -> tuple[str, ...]:
        found = self.prompts(folder)
        if found is None:
            return ()
        if not os.path.isdir(found):
            raise BadInput(
                f"The setting stark.promptsDirectory names {found}, which is not a folder.",
                cure="Correct it, or remove it to use the built-in templates.",
            )
        return (found,)


def _model(text: str, folder: str | None) -> str:
    """Return `stark.model`, the file of a transcript as an absolute path."""
    kind, colon, argument = text.partition(":")
    if kind.strip().lower() != "replay" or not argument.strip():
        return text
    return f"{kind}{colon}{resolved(argument.strip(), folder)}"


def read(section: Any) -> tuple[Configuration, tuple[str, ...]]:
    """Read the `stark` section as a client sends it.

    Parameters
    ----------
    section
        A JSON object, nested (`{"search": {"epsilon": 0.1}}`) or dotted (`{"search.epsilon": 0.1}`).

    Returns
    -------
    The configuration, and a sentence for each value that cannot be used.
    """
    if section is None:
        return Configuration(), ()
    if not isinstance(section, dict):
        return Configuration(), ("The settings stark must be an object; the defaults are used.",)
    values: dict[str, Any] = {}
    problems: list[str] = []
    details: dict[str, dict[str, Any]] = {name: {} for name in _DETAILS}
    for name, value in _flat(section):
        group, dot, detail = name.partition(".")
        setting = _BY_NAME.get(name)
        if group in details and dot:
            details[group][detail] = value
        elif setting is None:
            if group not in CLIENT_ONLY:
                problems.append(f"There is no setting stark.{name[:80]}.")
        elif value is None or (value == "" and setting.default is None):
            continue
        elif not setting.accepts(value):
            problems.append(
                f"The setting stark.{name} must be {setting.allowed}, not {shown(value)}; "
                f"{shown(setting.default) if setting.default is not None else 'nothing'} is used."
            )
        elif name in details:
            details[name].update(_flat(value))
        else:
            values[name] = value
    for group, given in details.items():
        usable = _usable(group, given, problems)
        if usable:
            values[group] = usable
    return Configuration(values), tuple(problems)


_DETAILS = {"evaluation": adjust.problem, "agents": agent_adjust.problem}
"""Settings that are objects of names and values, each with what tells of a value that cannot be used."""


def _usable(group: str, given: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    """Return the details that can be used, and add a sentence to `problems` for each other one."""
    usable: dict[str, Any] = {}
    for name, value in given.items():
        # Null is "not set", except where it leaves something to the model.
        if value is None and not (group == "agents" and agent_adjust.nullable(name)):
            continue
        trouble = _DETAILS[group](name, value)
        if trouble:
            problems.append(f"The setting stark.{group}.{name[:80]} {trouble}")
        else:
            usable[name] = value
    return usable


def merged(lower: Any, upper: Any) -> Any:
    """Return `lower` with the keys of `upper` laid over it; None covers nothing."""
    if not isinstance(upper, dict):
        return lower if upper is None else upper
    if not isinstance(lower, dict):
        return upper
    result = dict(lower)
    for key, value in upper.items():
        if value is not None:
            result[key] = merged(result.get(key), value)
        else:
            result.setdefault(key, None)
    return result


def schema() -> dict[str, dict[str, Any]]:
    """Return the settings as JSON Schema properties, for VS Code's `contributes.configuration`."""
    properties = {f"stark.{setting.name}": setting.schema for setting in SETTINGS}
    properties["stark.evaluation"] |= {
        "additionalProperties": False,
        "properties": {setting.name: setting.schema for setting in adjust.ADJUSTABLE},
    }
    properties["stark.agents"] |= {"additionalProperties": False, "properties": agent_adjust.schema()}
    return properties


def _flat(section: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in section.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name not in _BY_NAME:
            pairs.extend(_flat(value, f"{name}."))
        else:
            pairs.append((name, value))
    return pairs
