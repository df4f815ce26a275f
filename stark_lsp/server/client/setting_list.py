"""The settings of the `stark` section: names, allowed values, defaults, descriptions.

This is the one place that knows them; `configuration` reads them, the VS Code extension's manifest and the docs are
checked against them. What chooses programs, models, keys or spending has machine scope in the extension: a folder that
one clones must not decide it. The base URL of a service is no setting at all, but an environment variable.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from stark_lsp.core.agent_settings import DIALECTS, AgentSettings
from stark_lsp.core.setting import Setting, declared
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import DeviceChoice, Isolation, KernelPlace, Mode, WriteMode

_SEARCH = declared(SearchSettings)
_EVALUATION = declared(EvaluationSettings)
_AGENTS = AgentSettings()

SYSTEMS = ("stark", "sampling", "reflexion", "search-agent", "ma-only", "stark-tools")


def _choice(name: str, default: Enum, description: str) -> Setting:
    return Setting(name, "string", default.value, description, tuple(one.value for one in type(default)))


OF_SEARCH = {
    "search.policy": "policy",
    "search.epsilon": "epsilon",
    "search.rootChildren": "root_children",
    "search.deadBranchChildren": "dead_branch_children",
    "search.leaderboardSize": "leaderboard_size",
    "search.windowSize": "window_size",
    "search.corrections": "corrections",
    "search.tune": "tune",
    "search.tuneSeconds": "tune_s",
}
"""Settings that are fields of `SearchSettings` as they stand."""

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "interpreter",
        "string",
        None,
        "Python interpreter that has your project's torch, or its environment. When it is not set: a .venv or venv "
        "folder next to the file or above it, up to the root of the workspace or repository, if it is yours; what "
        "poetry made; VIRTUAL_ENV; CONDA_PREFIX; what .python-version names; then the interpreter the server runs "
        "under.",
    ),
    _choice(
        "device",
        DeviceChoice.AUTO,
        "Where to optimize: auto takes CUDA when torch sees a GPU, else the CPU.",
    ),
    _choice(
        "mode",
        Mode.EVAL,
        "Module mode in which your class and candidates are compared and timed: eval calls module.eval() first, "
        "as-constructed leaves the module as the constructor made it, and forward is timed; training calls "
        "module.train() and times forward with backward.",
    ),
    _choice(
        "isolation",
        Isolation.AUTO,
        "How candidates are kept apart from your files and the network: auto takes the strongest way that works on "
        "this machine and refuses to run them where there is none, strict insists on a bubblewrap sandbox, off runs "
        "them as plain processes under your account.",
    ),
    Setting(
        "model",
        "string",
        "auto",
        "Who proposes optimizations: playbook is built in and needs no network; anthropic, or anthropic:NAME, is "
        "Claude or another service with the Messages API; openai:NAME is a model of OpenAI's, or of the server that "
        "OPENAI_BASE_URL names, openai:NAME@ADDRESS one of the server there; editor is a model that the editor lends; "
        "replay:FILE repeats a transcript. auto takes anthropic if there is a key, else editor if it lends a model, "
        "else playbook.",
    ),
    Setting(
        "system",
        "string",
        "stark",
        "How agents and search work together: stark is plan, code and debug agents with strategic search; the others "
        "are there to compare with.",
        SYSTEMS,
    ),
    replace(_SEARCH["attempts"], high=10000),
    Setting("timeLimit", "number", None, "Seconds a search may take. When it is not set there is no limit.", low=1),
    Setting(
        "tokenLimit",
        "integer",
        None,
        "Tokens that models may read and write in one run. When it is not set there is no limit.",
        low=1,
    ),
    Setting(
        "costLimit",
        "number",
        None,
        "US dollars that one run may spend on models whose prices are known. When neither this nor tokenLimit is set, "
        "a run on such models stops at 10.",
        low=0.01,
    ),
    Setting(
        "dialect",
        "string",
        _AGENTS.dialect,
        "How a language model is asked to embed its kernels: raw launchers without torch headers, inline with "
        "torch/extension.h, or triton. auto is raw.",
        DIALECTS,
    ),
    _choice(
        "grounding",
        _AGENTS.grounding,
        "What a plan's anchors bind the code agent to: report notes edits outside of them, refuse does not judge such "
        "a candidate, off hides the anchors from the code agent.",
    ),
    Setting(
        "agents",
        "object",
        {},
        "How a language model is asked in each role, for instance "
        '{"plan.temperature": 0.9, "code.model": "claude-sonnet-5", "debug.effort": "high"}.',
    ),
    Setting(
        "profileInPrompts",
        "boolean",
        _AGENTS.profile,
        "Whether a language model is shown profiles of your class and of the candidate it works on.",
    ),
    Setting(
        "playbookFirst",
        "boolean",
        _AGENTS.playbook,
        "Whether a search with a language model begins with up to three candidates of the built-in playbook, at most a "
        "third of its attempts, which the model then improves; off begins with nothing, as the paper does.",
    ),
    Setting(
        "notes",
        "boolean",
        _AGENTS.notes,
        "Whether a search takes along what helped and failed in earlier runs of the same project, on the same device "
        "and on similar classes: a language model is told of it, titles and causes of failure included, and the "
        "playbook tries first what won. `stark-lsp notes` lists, changes and drops it.",
    ),
    Setting(
        "paper",
        "boolean",
        False,
        "Whether a search does as the paper does, whatever other settings say: nothing of the playbook first, no "
        "profiles and no facts of the machine for the model, nothing of earlier runs, no help for repairs, no "
        "corrections and no tuning within an attempt, no stronger model on stagnation, no plan that combines "
        "attempts, whole files instead of edits, one attempt at a time, kernels by load_inline.",
    ),
    _choice(
        "writeMode",
        WriteMode.BESIDE,
        "Where an accepted proposal goes: beside adds a class after yours, replace puts it in the place of yours, "
        "module writes a new file next to yours.",
    ),
    _choice(
        "kernels",
        KernelPlace.INLINE,
        "Where the code goes that builds and loads accepted kernels: inline puts it once into each file that has "
        "kernels, package into one _stark_kernels.py of the package, where relative imports show that it is one; "
        "else it is inline.",
    ),
    Setting(
        "inlayHints",
        "boolean",
        False,
        "Whether the editor shows at the end of a class's line what one call took when the class was last measured as "
        "it stands.",
    ),
    Setting(
        "anyLength",
        "boolean",
        False,
        "Whether the playbook writes kernels that serve other lengths, of texts say, than those of the inputs as well, "
        "and other batch sizes in training and where the inputs have one item; at their own they may be slower.",
    ),
    Setting("seed", "integer", 0, "Seed of every random choice of the search.", low=0),
    Setting("compileBaseline", "boolean", True, "Whether to time torch.compile as well, to compare with."),
    replace(
        _EVALUATION["rounds"],
        name="timingRounds",
        description="Interleaved timing rounds behind the verdict on a candidate.",
    ),
    replace(
        _EVALUATION["final_rounds"],
        name="finalTimingRounds",
        description="Interleaved timing rounds behind the figures of the proposal.",
    ),
    Setting(
        "evaluation",
        "object",
        {},
        "How candidates are built, checked and timed in every detail, by the names that stark-lsp judge --set takes, "
        'for instance {"load_timeout_s": 300}. It wins over the settings above.',
    ),
    *(replace(_SEARCH[field], name=name) for name, field in OF_SEARCH.items()),
    replace(_SEARCH["in_flight"], name="search.inFlight", high=64),
    Setting(
        "promptsDirectory",
        "string",
        None,
        "Folder whose templates replace those of the same name that come with stark-lsp, and whose strategies/ holds "
        "strategies of your own.",
    ),
)
"""All settings, in the order in which an editor shows them."""
