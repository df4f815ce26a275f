"""The options of `stark-lsp optimize`, and how they become settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

from stark_lsp.core import adjust, agent_adjust
from stark_lsp.core.agent_settings import DIALECTS, AgentSettings
from stark_lsp.core.errors import BadInput
from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.run import Budget
from stark_lsp.core.setting import declared
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import Grounding, Isolation, Mode, WriteMode
from stark_lsp.runs import choice
from stark_lsp.runs.options import DEFAULT_DOLLARS, RunOptions
from stark_lsp.search.policies import make_policy
from stark_lsp.search.systems import find_system

HYPER_PARAMETERS = {
    name: one for name, one in declared(SearchSettings).items() if name not in ("attempts", "in_flight")
}
"""Fields of `SearchSettings` that have options of their names."""
OWN_OPTIONS = {
    "dialect": "--dialect",
    "grounding": "--grounding",
    "profile": "--no-profile",
    "playbook": "--no-seeds",
    "notes": "--no-notes",
}
"""Fields of `AgentSettings` that `--agent` does not take, with the option that does."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all options to `parser`."""
    defaults = SearchSettings()
    parser.add_argument("target", metavar="FILE[::Class]", help="a Python file, and which of its classes")

    search = parser.add_argument_group("search")
    add_budget(search)
    search.add_argument(
        "--parallel",
        dest="in_flight",
        type=int,
        default=defaults.in_flight,
        metavar="N",
        help="attempts under way at the same time; only 1 can be repeated exactly (default: %(default)s)",
    )
    search.add_argument(
        "--any-length",
        action="store_true",
        help="have the playbook write kernels that serve other lengths, of texts say, than those of your inputs too",
    )
    search.add_argument("--seed", type=int, default=defaults.seed, metavar="N", help="seed of every random choice")
    search.add_argument(
        "--model",
        default="auto",
        metavar="NAME",
        help="who plans and writes: anthropic, anthropic:NAME, openai:NAME, openai:NAME@ADDRESS, playbook, "
        "replay:FILE; auto takes anthropic if a key is set, else playbook (default: %(default)s)",
    )
    search.add_argument(
        "--system",
        default=defaults.system,
        metavar="NAME",
        help="how the agents work together: stark, sampling, reflexion, search-agent, ma-only, "
        "stark-tools (default: %(default)s)",
    )
    search.add_argument(
        "--resume",
        action="store_true",
        help="go on with the unfinished run on this class, if any; one that had spent its budget needs a larger one",
    )

    add_agents(parser.add_argument_group("language model"))

    measuring = parser.add_argument_group("measuring")
    measuring.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to optimize (default: a GPU if any)"
    )
    measuring.add_argument(
        "--mode",
        choices=tuple(mode.value for mode in Mode),
        default=Mode.EVAL.value,
        help="module mode to compare and time in (default: %(default)s)",
    )
    measuring.add_argument("--python", metavar="INTERPRETER", help="the Python that has torch (default: the project's)")
    measuring.add_argument("--no-compile-baseline", action="store_true", help="do not time torch.compile as well")
    add_isolation(measuring)
    add_set(measuring)

    result = parser.add_argument_group("result")
    result.add_argument(
        "--write",
        choices=("beside", "replace", "module"),
        help="write the proposal: after the class, in its place, or as a new file",
    )
    result.add_argument(
        "--diff",
        action="store_true",
        help="show all of the proposal as a patch, not only how the class changes; with --quiet, print nothing else",
    )
    result.add_argument("--report", metavar="FILE", help="write the run as an HTML page to FILE")
    result.add_argument("--brief", action="store_true", help="show no attempts, only what comes of them")
    result.add_argument("--json", metavar="OUT", help='write the result as JSON to OUT, "-" for standard output')
    result.add_argument("--quiet", "-q", action="store_true", help="show nothing but errors and what was asked for")

    add_tuning(parser.add_argument_group("hyper-parameters of the search"))


def add_budget(group: argparse._ArgumentGroup) -> None:
    """Add what a run may spend."""
    attempts = SearchSettings().attempts
    group.add_argument(
        "--budget", type=int, default=attempts, metavar="N", help="attempts to make (default: %(default)s)"
    )
    group.add_argument(
        "--time-limit",
        type=float,
        metavar="S",
        help="stop searching after S seconds; what is being judged then comes to its verdict",
    )
    group.add_argument(
        "--tokens", type=int, metavar="N", help="spend at most N tokens of a language model, read and written"
    )
    group.add_argument(
        "--dollars",
        type=float,
        metavar="X",
        help="spend at most X US dollars on a language model (default: 10, where its price is known and there is no "
        "limit of tokens)",
    )


def add_tuning(group: argparse._ArgumentGroup, besides: Collection[str] = ()) -> None:
    """Add the hyper-parameters of the search, without those named in `besides`."""
    for name, one in HYPER_PARAMETERS.items():
        if name in besides:
            continue
        default, text = one.default, one.description[0].lower() + one.description[1:].rstrip(".")
        group.add_argument(
            "--" + name.replace("_", "-"),
            type=type(default),
            default=default,
            metavar={str: "NAME", float: "P"}.get(type(default), "N"),
            help=f"{text} (default: %(default)s)",
        )


def tuned(args: argparse.Namespace, besides: Collection[str] = ()) -> dict[str, Any]:
    """Return the hyper-parameters that `add_tuning` read, by name."""
    return {name: getattr(args, name) for name in HYPER_PARAMETERS if name not in besides}


def add_agents(group: argparse._ArgumentGroup) -> None:
    """Add the options of agents that a language model answers for."""
    defaults = AgentSettings()
    group.add_argument(
        "--dialect",
        choices=DIALECTS,
        default=defaults.dialect,
        help="how kernels are embedded in a candidate (default: raw)",
    )
    group.add_argument(
        "--grounding",
        choices=tuple(choice.value for choice in Grounding),
        default=defaults.grounding.value,
        help="what happens to edits outside the lines that a plan marked: report notes them, refuse judges no such "
        "candidate, off strips the marks before the code is written (default: %(default)s)",
    )
    group.add_argument(
        "--agent",
        dest="agents",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set one detail of an agent, for instance plan.temperature=0.9 or code.model=NAME; can be repeated "
        "(docs/agents.md lists the names, and so does a wrong one)",
    )
    group.add_argument(
        "--paper",
        action="store_true",
        help="as the paper has it: nothing of the playbook first, no profiles, no facts of the machine, nothing of "
        "earlier runs, no help for repairs, no corrections and no tuning within an attempt, no stronger model on "
        "stagnation, no plan that combines attempts, whole files instead of edits, one attempt at a time, kernels by "
        "load_inline",
    )
    group.add_argument(
        "--no-seeds",
        action="store_true",
        help="begin with nothing, as the paper does, and not with what the built-in playbook knows",
    )
    group.add_argument(
        "--no-profile", action="store_true", help="show agents no profiles of the class and of what they wrote"
    )
    add_notes(group)
    group.add_argument(
        "--prompts",
        metavar="DIR",
        help="folder whose templates replace the built-in ones of the same name; strategies/ in it holds your own",
    )


def add_isolation(group: argparse._ArgumentGroup) -> None:
    """Add `--isolation`."""
    group.add_argument(
        "--isolation",
        choices=tuple(choice.value for choice in Isolation),
        default=Isolation.AUTO.value,
        help="how candidates are kept apart from your files and the network: auto takes the strongest way that works "
        "here and refuses where there is none, strict insists on bubblewrap, off runs them as plain processes "
        "(default: %(default)s)",
    )


def add_set(group: argparse._ArgumentGroup) -> None:
    """Add `--set`."""
    group.add_argument(
        "--set",
        dest="adjusted",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set one detail of how candidates are built, checked and timed, for instance load_timeout_s=300; can be "
        "repeated, and wins over other options (docs/judge.md lists the names, and so does a wrong one)",
    )


def adjustments(given: Sequence[str]) -> dict[str, Any]:
    """Return what `--set` was given as values by name; of several for one name the last.

    Raises
    ------
    BadInput
        One is not of the form NAME=VALUE, names nothing that can be set, or has a value that is not allowed.
    """
    if any(text.partition("=")[0].strip() == "isolation" for text in given):
        raise BadInput("--set isolation cannot be used.", cure="Isolation has an option of its own: --isolation.")
    return _by_name("--set", given, "load_timeout_s=300", adjust.parsed, adjust.problem)


def refuse_beyond_paper(system: str) -> None:
    """Refuse a system that the paper does not have.

    Raises
    ------
    BadInput
        There is no such system, or it is one of ours.
    """
    if find_system(system).tools:
        raise BadInput(f"The system {system} is not the paper's.", cure="Leave out --paper, or use the system stark.")


def add_notes(parser: argparse._ActionsContainer) -> None:
    """Add what keeps notes of earlier runs from a model."""
    parser.add_argument(
        "--no-notes",
        action="store_true",
        help="take nothing along from earlier runs of this project; else the model is told what helped and failed "
        "there on similar classes, and the playbook tries first what won (stark-lsp notes)",
    )


def agent_settings(args: argparse.Namespace) -> AgentSettings:
    """Return the settings of the agents.

    Raises
    ------
    BadInput
        An `--agent` is not of the form NAME=VALUE, names nothing that can be set or what has an option of its own, or
        has a value that is not allowed.
    """
    for text in args.agents:
        name = text.partition("=")[0].strip()
        if name in OWN_OPTIONS:
            raise BadInput(f"--agent {name} cannot be used.", cure=f"It has an option of its own: {OWN_OPTIONS[name]}.")
    settings = AgentSettings(
        dialect=args.dialect,
        grounding=Grounding(args.grounding),
        profile=not args.no_profile,
        playbook=not args.no_seeds,
        notes=not args.no_notes,
    )
    values = _by_name("--agent", args.agents, "plan.temperature=0.9", agent_adjust.parsed, agent_adjust.problem)
    return agent_adjust.adjusted(settings, values)


def prompts_folder(args: argparse.Namespace) -> str | None:
    """Return the absolute path of what `--prompts` names, None if it is not given.

    Raises
    ------
    BadInput
        It is no folder.
    """
    if args.prompts is None:
        return None
    folder: str = args.prompts
    if not os.path.isdir(folder):
        raise BadInput(f"--prompts {folder} is not a folder.")
    return os.path.abspath(folder)


def _by_name(
    option: str,
    given: Sequence[str],
    example: str,
    parse: Callable[[str, str], Any],
    problem: Callable[[str, Any], str],
) -> dict[str, Any]:
    """Return what a repeated option was given, by name."""
    values: dict[str, Any] = {}
    for text in given:
        name, found, value = (part.strip() for part in text.partition("="))
        if not found:
            raise BadInput(f"{option} {text} has no value.", cure=f"Write NAME=VALUE, for instance {example}.")
        values[name] = parse(name, value)
        trouble = problem(name, values[name])
        if trouble:
            raise BadInput(f"{option} {name} {trouble}")
    return values


def run_options(args: argparse.Namespace) -> RunOptions:
    """Return what was asked for.

    Raises
    ------
    BadInput
        An option has a value that makes no sense, or names a policy or model there is not.
    """
    if args.budget < 1:
        raise BadInput(f"--budget must be at least 1, not {args.budget}.")
    if args.time_limit is not None and not args.time_limit > 0:
        raise BadInput(f"--time-limit must be more than 0 seconds, not {args.time_limit:g}.")
    folder = prompts_folder(args)
    if args.tokens is not None and args.tokens < 1:
        raise BadInput(f"--tokens must be at least 1, not {args.tokens}.")
    if args.dollars is not None and not args.dollars > 0:
        raise BadInput(f"--dollars must be more than 0, not {args.dollars:g}.")
    choice.parse(args.model)
    try:
        search = SearchSettings(
            attempts=args.budget,
            seed=args.seed,
            system=args.system,
            in_flight=args.in_flight,
            any_length=args.any_length,
            **tuned(args),
        )
        find_system(search.system)
        make_policy(search.policy, search)
    except ValueError as error:
        raise BadInput(f"{error}.", cure="See stark-lsp optimize --help.") from error
    agents = agent_settings(args)
    if args.paper:
        refuse_beyond_paper(search.system)
        search, agents = as_in_paper(search, agents)
    return RunOptions(
        model=args.model,
        agents=agents,
        budget=Budget(attempts=args.budget, seconds=args.time_limit, tokens=args.tokens, dollars=args.dollars),
        default_dollars=DEFAULT_DOLLARS,
        search=search,
        evaluation=adjust.adjusted(
            EvaluationSettings(compile_baseline=not args.no_compile_baseline, isolation=Isolation(args.isolation)),
            adjustments(args.adjusted),
        ),
        interpreter=args.python,
        resume=args.resume,
        prompt_dirs=() if folder is None else (folder,),
        write_mode=WriteMode(args.write or "beside"),
    )
