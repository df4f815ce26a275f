"""`stark-lsp bench`: the paper's experiments on a suite of problems.

1. `bench.suite` finds the problems, `bench.cells` makes a cell for each problem, system, policy and seed.
2. `bench.campaign` has a crew run those that are left: processes of this machine, or the workers of a cluster.
3. `bench.report` writes tables and plots from what the folder then holds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from stark_lsp.bench import campaign, ledger, prompts, report
from stark_lsp.bench.campaign import Step
from stark_lsp.bench.cells import Cell, Wanted, cells
from stark_lsp.bench.cluster import Cluster
from stark_lsp.bench.crew import Crew, Processes
from stark_lsp.bench.outlook import outlook
from stark_lsp.bench.rows import Outcome, Row
from stark_lsp.bench.suite import LISTS, Entry, discover, select
from stark_lsp.cli import options
from stark_lsp.cli.terminal import console, driver, failures
from stark_lsp.cli.terminal.steps import Steps
from stark_lsp.core import adjust
from stark_lsp.core.errors import BadInput
from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import PRESETS, EvaluationSettings, SearchSettings
from stark_lsp.core.status import DeviceChoice, Isolation
from stark_lsp.evaluation import gpus
from stark_lsp.evaluation.lookup import find_interpreter
from stark_lsp.runs import choice
from stark_lsp.runs.choice import PLAYBOOK, ModelChoice
from stark_lsp.runs.models import check
from stark_lsp.runs.providers import Providers
from stark_lsp.search.policies import make_policy
from stark_lsp.search.systems import find_system

T = TypeVar("T")

DESCRIPTION = """\
Run systems on a suite of problems, and write the tables and plots of the paper.

SUITE_DIR is a folder in KernelBench's format: level1/, level2/ … with files that hold a class Model,
get_inputs() and get_init_inputs(); files that lie in the folder itself have level 0. Every result is
kept as soon as it is there; --resume goes on after a stop or a kill, in the middle of a problem too.
"""

EPILOG = """\
examples:
  stark-lsp bench samples --system stark --model playbook --budget 10 --out results
  stark-lsp bench suite --levels 1,2,3 --subset representative --system sampling,reflexion,stark --out results
  stark-lsp bench suite --subset 1/19,2/40 --out results --resume
  stark-lsp bench suite --workers 4 --out results                  four GPUs of this machine
  stark-lsp bench suite --scheduler tcp://host:8786 --out results  workers of a Dask cluster
  stark-lsp bench report results other --out both                  write the report again, or of several

exit codes:
  0  every problem that was asked for has a result      2  the suite or an option cannot be used
  1  some ended in a fault of the machine, or something else broke
  130  stopped by Ctrl-C; --resume goes on
"""

REPORT = "report"
BASELINES = ("eager", "compile", "max-autotune")
SEVERAL = ("policy",)
"""Hyper-parameters of which a benchmark takes several."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `stark-lsp bench`."""
    parser.usage = (
        "stark-lsp bench SUITE_DIR --out DIR [options]\n       stark-lsp bench report DIR [DIR ...] [--out DIR]"
    )
    parser.add_argument("target", metavar="SUITE_DIR", help="the suite, or the word report with folders of results")
    parser.add_argument("folders", metavar="DIR", nargs="*", help="with report: folders of results")
    parser.add_argument("--out", metavar="DIR", help="where results go; with report, default is the first DIR")

    what = parser.add_argument_group("what is run")
    what.add_argument("--levels", metavar="LIST", help="levels of the suite, such as 1,2,3 (default: all)")
    what.add_argument(
        "--subset",
        default="all",
        metavar="WHICH",
        help="all, representative (as the suite's representative.txt says, else ten drawn from each level), names such "
        "as 1/3,2/17, or a file of them",
    )
    what.add_argument("--system", default="stark", metavar="LIST", help="who searches (default: %(default)s)")
    what.add_argument(
        "--policy", default="auto", metavar="LIST", help="how nodes are chosen (default: the system's own)"
    )
    what.add_argument(
        "--model",
        default="playbook",
        metavar="LIST",
        help="who answers: auto, playbook, anthropic, anthropic:NAME, openai:NAME, openai:NAME@ADDRESS "
        "(default: %(default)s)",
    )
    what.add_argument("--seed", default="0", metavar="LIST", help="seeds, each a run of its own (default: %(default)s)")
    what.add_argument("--resume", action="store_true", help="go on with what --out holds")

    options.add_budget(parser.add_argument_group("budget of each problem"))
    options.add_agents(parser.add_argument_group("language model"))

    how = parser.add_argument_group("measuring")
    how.add_argument(
        "--baselines",
        default=",".join(BASELINES),
        metavar="LIST",
        help="what to time against: eager, compile, max-autotune (default: %(default)s)",
    )
    how.add_argument(
        "--settings", choices=tuple(PRESETS), default="default", help="how candidates are checked and timed"
    )
    how.add_argument(
        "--device", choices=tuple(one.value for one in DeviceChoice), default="auto", help="default: a GPU if any"
    )
    how.add_argument("--python", metavar="INTERPRETER", help="the Python that has torch (default: the suite's)")
    options.add_isolation(how)
    options.add_set(how)

    where = parser.add_argument_group("where it runs")
    where.add_argument("--workers", type=int, metavar="N", help="processes of this machine, each with a GPU of its own")
    where.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, whose workers run the problems")
    where.add_argument(
        "--parallel", type=int, default=1, metavar="N", help="attempts under way in each run (default: 1)"
    )

    options.add_tuning(parser.add_argument_group("hyper-parameters of the search"), SEVERAL)


def run(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    return _report(args) if args.target == REPORT else _bench(args)


def _report(args: argparse.Namespace) -> int:
    if not args.folders:
        raise BadInput("No folder of results is named.", cure="stark-lsp bench report DIR [DIR ...]")
    folders = [Path(folder).absolute() for folder in args.folders]
    written = report.write(report.collect(folders), Path(args.out).absolute() if args.out else folders[0])
    console.line(console.make(), f"Written: {console.short_path(written)}")
    return 0


def _bench(args: argparse.Namespace) -> int:
    if args.folders:
        raise BadInput(f"{args.folders[0]} is one folder too many.", cure="Name one suite.")
    if not args.out:
        raise BadInput("--out is missing.", cure="Name a folder for the results: --out DIR.")
    suite, out = Path(args.target).absolute(), Path(args.out).absolute()
    levels = _list(args.levels, "--levels", int) if args.levels else None
    entries = select(discover(suite), suite, levels=levels, subset=args.subset)
    planned = cells(entries, wanted(args))
    crew = _crew(args, entries, out / campaign.CELLS)
    screen = console.make(unread=True)
    console.line(screen, f"STARK: {len(entries)} problems of {console.short_path(suite)}, {len(planned)} runs", "bold")
    drawn = dict.fromkeys(entry.drawn for entry in entries if entry.drawn)
    if drawn:
        console.line(
            screen, f"It has no {LISTS[0]}, so problems are drawn, always the same: {', '.join(drawn)}.", "yellow"
        )

    coming = outlook(campaign.left(planned, out))
    if coming is not None:
        console.line(console.make(to_stderr=True), coming.text)
    with Steps(console.make(to_stderr=True)) as steps:
        work = campaign.run(
            planned,
            out,
            crew,
            resume=args.resume,
            step=lambda step: _show(screen, step),
            say=lambda cell, text: steps(f"{cell.problem} {cell.search.system}: {text}"),
        )
        try:
            outcome = driver.until_stopped(work)
        finally:
            written = _write_what_there_is(out)
    if written is not None:
        console.line(screen, f"Written: {console.short_path(written)}")
    if outcome.value is None:
        screen.print("Stopped. The same command with --resume goes on from here.", style="dim")
        return 128 + (outcome.signal or 0)
    keys = {cell.key for cell in planned}
    faults = [row for row in outcome.value if row.key in keys and row.outcome is Outcome.FAULT]
    if faults:
        console.line(
            screen, f"{len(faults)} runs ended in a fault of the machine; --resume tries them again.", "yellow"
        )
    return failures.FAULT if faults else failures.OK


def _write_what_there_is(out: Path) -> Path | None:
    if not (out / ledger.NAME).is_file():
        return None
    return report.write(report.collect([out]), out)


# --- options ---------------------------------------------------------------------------------------------


def wanted(args: argparse.Namespace) -> Wanted:
    """Return what is run on every problem.

    Raises
    ------
    BadInput
        An option has a value that makes no sense.
    """
    for name in ("budget", "time_limit", "tokens", "dollars", "parallel", "workers"):
        value = getattr(args, name)
        if value is not None and not value > 0:
            raise BadInput(f"--{name.replace('_', '-')} must be more than 0, not {value:g}.")
    systems, policies = _list(args.system, "--system", str), _list(args.policy, "--policy", str)
    models = [_model(text) for text in _list(args.model, "--model", str)]
    folder = options.prompts_folder(args)
    try:
        search = SearchSettings(attempts=args.budget, in_flight=args.parallel, **options.tuned(args, SEVERAL))
    except ValueError as error:
        raise BadInput(f"{error}.", cure="See stark-lsp bench --help.") from error
    for system in systems:
        if "playbook" in models:
            check(ModelChoice(PLAYBOOK), find_system(system))
        if args.paper:
            options.refuse_beyond_paper(system)
        for policy in policies:
            make_policy(policy, replace(search, system=system, policy=policy))
    agents = options.agent_settings(args)
    if args.paper:
        search, agents = as_in_paper(search, agents)
    return Wanted(
        systems=systems,
        policies=policies,
        models=models,
        seeds=_list(args.seed, "--seed", int),
        search=search,
        budget=Budget(args.budget, seconds=args.time_limit, tokens=args.tokens, dollars=args.dollars),
        evaluation=_evaluation(args),
        agents=agents,
        prompts=prompts.read(Path(folder)) if folder is not None else {},
        device=DeviceChoice(args.device),
        settings=args.settings,
    )


def _model(text: str) -> str:
    """Return who answers, settled for all runs: what `auto` comes to may differ between machines.

    Raises
    ------
    BadInput
        There is no such model, or it cannot be used here.
    """
    asked = choice.parse(text) or asyncio.run(choice.choose(text, Providers(), lambda told: None))
    if asked.kind not in (choice.PLAYBOOK, choice.ANTHROPIC, choice.OPENAI):
        raise BadInput(
            f"A benchmark cannot be answered by {asked.kind}.", cure="Choose playbook, anthropic or openai:NAME."
        )
    return asked.label


def _evaluation(args: argparse.Namespace) -> EvaluationSettings:
    baselines = _list(args.baselines, "--baselines", str)
    unknown = [name for name in baselines if name not in BASELINES]
    if unknown or "eager" not in baselines:
        told = f"there is no baseline {unknown[0]!r}" if unknown else "eager is always one of them"
        raise BadInput(f"--baselines: {told}.", cure=f"Choose from {', '.join(BASELINES)}.")
    chosen = replace(
        PRESETS[args.settings],
        compile_baseline="compile" in baselines,
        max_autotune="max-autotune" in baselines,
        isolation=Isolation(args.isolation),
    )
    return adjust.adjusted(chosen, options.adjustments(args.adjusted))


def _list(text: str, option: str, kind: Callable[[str], T]) -> list[T]:
    """Return the parts of `a,b,c`, each once.

    Raises
    ------
    BadInput
        It is empty, or a part is not of that kind.
    """
    try:
        found = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        raise BadInput(f"{option} must be whole numbers, such as 1,2, not {text[:80]!r}.") from None
    if not found:
        raise BadInput(f"{option} is empty.")
    return list(dict.fromkeys(found))


def _crew(args: argparse.Namespace, entries: Sequence[Entry], folder: Path) -> Crew:
    """Return who runs the cells.

    Raises
    ------
    BadInput
        Two ways are asked for, or there are fewer GPUs than workers.
    """
    if args.scheduler:
        if args.workers:
            raise BadInput(
                "--workers and --scheduler cannot be used together.", cure="A scheduler has its own workers."
            )
        # Each machine finds its own Python, unless one is named.
        return Cluster(args.scheduler, args.python)
    interpreter = find_interpreter(args.python, entries[0].path, (os.getcwd(),)).path
    places = _places(args.workers, DeviceChoice(args.device)) if args.workers else [{}]
    return Processes(folder, interpreter, places)


def _places(workers: int, device: DeviceChoice) -> list[Mapping[str, str]]:
    """Return for each worker which GPU it sees; nothing where there is no GPU to share out."""
    offered = gpus.visible(gpus.listing(), os.environ) if device is not DeviceChoice.CPU else ()
    if not offered:
        return [{} for _ in range(workers)]
    if workers > len(offered):
        raise BadInput(
            f"There are {len(offered)} GPUs for {workers} workers.", cure=f"Use --workers {len(offered)} at most."
        )
    return [{"CUDA_VISIBLE_DEVICES": name} for name in offered[:workers]]


# --- what is shown ---------------------------------------------------------------------------------------


def _show(screen: Console, step: Step) -> None:
    text = f"[{step.done}/{step.total}] {step.cell.problem} {_label(step.cell)}: {told(step.row)}"
    console.line(screen, text)


def _label(cell: Cell) -> str:
    policy = "" if cell.search.policy == "auto" else f" {cell.search.policy}"
    return f"{cell.search.system}{policy} seed {cell.search.seed}"


def told(row: Row) -> str:
    """Return what came of a cell, in a line."""
    if row.outcome is not Outcome.MEASURED:
        return f"{row.outcome.value}: {' '.join(row.reason.split())[:200]}"
    right = sum(not attempt.status.failed for attempt in row.attempts)
    tried = f"{right} of {len(row.attempts)} attempts verified"
    if row.best is None:
        failed = next((attempt for attempt in row.attempts if attempt.status.failed), None)
        reason = row.reason or (f"{failed.status.value} {failed.message}" if failed is not None else "")
        why = f": {' '.join(reason.split())[:200]}" if reason else ""
        return f"not solved, {tried}{why}"
    gains = ", ".join(f"{gain.value:.2f}x {name}" for name, gain in row.best.gains.items())
    return f"{gains}; {tried}"
