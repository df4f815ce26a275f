"""The settings of the `stark` section: names, allowed values, defaults, descriptions.

This is the one place that knows them. `schema` gives them to the VS Code extension's manifest and
the docs, `read` turns what a client sends into a `Configuration`. A value that cannot be used is
reported with its name and what is allowed, and its default takes its place.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stark_lsp.core import adjust
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Budget
from stark_lsp.core.setting import Setting, shown
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import DeviceChoice, Isolation, Mode, WriteMode

if TYPE_CHECKING:
    from stark_lsp.runs.options import RunOptions

_SEARCH = SearchSettings()
_EVALUATION = EvaluationSettings()


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "interpreter",
        "string",
        None,
        "Python interpreter that has your project's torch. When it is not set: a .venv or venv folder next to the file "
        "or above it, then VIRTUAL_ENV, then the interpreter the server runs under.",
    ),
    Setting(
        "device",
        "string",
        DeviceChoice.AUTO.value,
        "Where to optimize: auto takes CUDA when torch sees a GPU, else the CPU.",
        tuple(choice.value for choice in DeviceChoice),
    ),
    Setting(
        "mode",
        "string",
        Mode.EVAL.value,
        "Module mode in which your class and candidates are compared and timed: eval calls module.eval() first, "
        "as-constructed leaves the module as the constructor made it, both under torch.no_grad(); training calls "
        "module.train(), compares the gradients as well and times forward with backward.",
        tuple(mode.value for mode in Mode),
    ),
    Setting(
        "isolation",
        "string",
        Isolation.AUTO.value,
        "How candidates are kept apart from your files and the network: auto takes the strongest way that works on "
        "this machine and refuses to run them where there is none, strict insists on a bubblewrap sandbox, off runs "
        "them as plain processes under your account.",
        tuple(choice.value for choice in Isolation),
    ),
    Setting("model", "string", "playbook", "Who proposes optimizations. playbook is built in and needs no network."),
    Setting("attempts", "integer", 30, "How many candidates a run may try.", low=1, high=10000),
    Setting("timeLimit", "number", None, "Seconds a search may take. When it is not set there is no limit.", low=1),
    Setting(
        "writeMode",
        "string",
        WriteMode.BESIDE.value,
        "Where an accepted proposal goes: beside adds a class after yours, replace puts it in the place of yours, "
        "module writes a new file next to yours.",
        tuple(mode.value for mode in WriteMode),
    ),
    Setting("seed", "integer", 0, "Seed of every random choice of the search.", low=0),
    Setting("compileBaseline", "boolean", True, "Whether to time torch.compile as well, to compare with."),
    Setting(
        "timingRounds",
        "integer",
        _EVALUATION.rounds,
        "Interleaved timing rounds behind the verdict on a candidate.",
        low=3,
        high=1000,
    ),
    Setting(
        "finalTimingRounds",
        "integer",
        _EVALUATION.final_rounds,
        "Interleaved timing rounds behind the figures of the proposal.",
        low=3,
        high=1000,
    ),
    Setting(
        "evaluation",
        "object",
        {},
        "How candidates are built, checked and timed in every detail, by the names that stark-lsp judge --set takes, "
        'for instance {"load_timeout_s": 300}. It wins over the settings above.',
    ),
    Setting("search.policy", "string", _SEARCH.policy, "How the search selects the node to go on from."),
    Setting(
        "search.epsilon",
        "number",
        _SEARCH.epsilon,
        "Probability of exploring a random leaf instead of the best node.",
        low=0,
        high=1,
    ),
    Setting(
        "search.rootChildren",
        "integer",
        _SEARCH.root_children,
        "The original class is not expanded beyond this many candidates.",
        low=1,
    ),
    Setting(
        "search.deadBranchChildren",
        "integer",
        _SEARCH.dead_branch_children,
        "A candidate with more than this many children, all failed, is given up.",
        low=1,
    ),
    Setting(
        "search.leaderboardSize",
        "integer",
        _SEARCH.leaderboard_size,
        "How many of the best candidates the plan agent sees.",
        low=1,
    ),
    Setting("search.windowSize", "integer", _SEARCH.window_size, "How many candidates an agent sees at most.", low=1),
    Setting(
        "search.inFlight",
        "integer",
        _SEARCH.in_flight,
        "Attempts under way at the same time. Only 1 replays exactly.",
        low=1,
        high=64,
    ),
    Setting(
        "promptsDirectory",
        "string",
        None,
        "Folder whose templates replace those of the same name that come with stark-lsp.",
    ),
)
"""All settings, in the order in which an editor shows them."""

_EVALUATION_PREFIX = "evaluation."
_BY_NAME = {setting.name: setting for setting in SETTINGS}

CLIENT_ONLY = frozenset({"trace", "diffView", "server", "enable"})
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

    def run_options(self) -> RunOptions:
        """Return the options of a run; an unfinished run on an unchanged class is always taken up.

        Raises
        ------
        BadInput
            The search settings contradict each other, or the folder with prompts is not there.
        """
        from stark_lsp.runs.options import RunOptions

        attempts = int(self["attempts"])
        try:
            search = SearchSettings(
                policy=self["search.policy"],
                epsilon=float(self["search.epsilon"]),
                root_children=int(self["search.rootChildren"]),
                dead_branch_children=int(self["search.deadBranchChildren"]),
                leaderboard_size=int(self["search.leaderboardSize"]),
                window_size=int(self["search.windowSize"]),
                attempts=attempts,
                in_flight=int(self["search.inFlight"]),
                seed=int(self["seed"]),
            )
        except ValueError as error:
            raise BadInput(f"The settings stark.search cannot be used: {error}.") from error
        limit = self["timeLimit"]
        return RunOptions(
            model=self["model"],
            budget=Budget(attempts, None if limit is None else float(limit)),
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
            interpreter=self["interpreter"],
            resume=True,
            prompt_dirs=self._prompt_dirs(),
        )

    @property
    def prompts(self) -> str | None:
        """`stark.promptsDirectory` as an absolute path."""
        folder = self["promptsDirectory"]
        return os.path.abspath(os.path.expanduser(folder)) if folder else None

    def _prompt_dirs(self) -> tuple[str, ...]:
        if self.prompts is None:
            return ()
        if not os.path.isdir(self.prompts):
            raise BadInput(
                f"The setting stark.promptsDirectory names {self.prompts}, which is not a folder.",
                cure="Correct it, or remove it to use the built-in templates.",
            )
        return (self.prompts,)


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
    evaluation: dict[str, Any] = {}
    for name, value in _flat(section):
        if name.startswith(_EVALUATION_PREFIX):
            evaluation[name.removeprefix(_EVALUATION_PREFIX)] = value
            continue
        setting = _BY_NAME.get(name)
        if setting is None:
            if name.partition(".")[0] not in CLIENT_ONLY:
                problems.append(f"There is no setting stark.{name[:80]}.")
        elif value is None or (value == "" and setting.default is None):
            continue
        elif setting.accepts(value) and name == "evaluation":
            evaluation.update(value)
        elif setting.accepts(value):
            values[name] = value
        else:
            problems.append(
                f"The setting stark.{name} must be {setting.allowed}, not {shown(value)}; "
                f"{shown(setting.default) if setting.default is not None else 'nothing'} is used."
            )
    usable = {name: value for name, value in evaluation.items() if value is not None}
    for name in list(usable):
        trouble = adjust.problem(name, usable[name])
        if trouble:
            problems.append(f"The setting stark.{_EVALUATION_PREFIX}{name[:80]} {trouble}")
            del usable[name]
    if usable:
        values["evaluation"] = usable
    return Configuration(values), tuple(problems)


def merged(lower: Any, upper: Any) -> Any:
    """Return `lower` with the keys of `upper` that are not None laid over it."""
    if not isinstance(upper, dict):
        return lower if upper is None else upper
    if not isinstance(lower, dict):
        return upper
    result = dict(lower)
    for key, value in upper.items():
        if value is not None:
            result[key] = merged(result.get(key), value)
    return result


def schema() -> dict[str, dict[str, Any]]:
    """Return the settings as JSON Schema properties, for VS Code's `contributes.configuration`."""
    properties = {f"stark.{setting.name}": setting.schema for setting in SETTINGS}
    properties["stark.evaluation"] |= {
        "additionalProperties": False,
        "properties": {setting.name: setting.schema for setting in adjust.ADJUSTABLE},
    }
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
