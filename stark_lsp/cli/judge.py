"""`stark-lsp judge`: the judge on its own, for anybody's candidate file.

1. The two files are read and the reference's class is found, as for `optimize`.
2. A worker prepares the reference and judges the candidate once; `steps` says what goes on.
3. `evidence` shows the verdict as a page, `report` writes it as JSON. Nothing is kept.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from stark_lsp.cli import options
from stark_lsp.cli.output import evidence, results
from stark_lsp.cli.output.results import Report
from stark_lsp.cli.terminal import console, documents, driver, failures
from stark_lsp.cli.terminal.failures import Log
from stark_lsp.cli.terminal.steps import Steps
from stark_lsp.core import adjust
from stark_lsp.core.errors import StarkError
from stark_lsp.core.problem import Problem
from stark_lsp.core.settings import PRESETS, EvaluationSettings
from stark_lsp.core.status import DeviceChoice, Isolation, Mode
from stark_lsp.evaluation.lookup import find_interpreter
from stark_lsp.runs.judging import judge_once

DESCRIPTION = """\
Check and time one candidate against the class it stands in for.

REFERENCE is a Python file with an nn.Module and its example inputs (get_inputs(), get_init_inputs(), as in
KernelBench). CANDIDATE is a Python file with the class that is to replace it. The candidate is built and run
apart from your files and the network, compared with the reference on several inputs, and timed in turns with
eager PyTorch and torch.compile.
"""

EPILOG = """\
examples:
  stark-lsp judge model.py candidate.py                       ModelNew of candidate.py against Model
  stark-lsp judge model.py::Attention candidate.py::Fused     other classes
  stark-lsp judge model.py candidate.py --settings kernelbench --json verdict.json
  stark-lsp judge model.py candidate.py --baselines eager     without torch.compile, which takes longest

exit codes:
  0  the candidate is right (OK)                  2  a file, class or option cannot be used
  1  it is not, or something else broke           130  stopped by Ctrl-C
"""

NOT_OK = 1
"""Exit code for every verdict but `OK`."""

BASELINES = ("eager,compile", "eager", "eager,compile,max-autotune")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `stark-lsp judge`."""
    parser.usage = "stark-lsp judge REFERENCE[::Class] CANDIDATE[::Class] [options]"
    parser.add_argument("reference", metavar="REFERENCE[::Class]", help="the file with the original class")
    parser.add_argument("candidate", metavar="CANDIDATE[::Class]", help="the file with the class to judge")

    what = parser.add_argument_group("what is judged")
    what.add_argument(
        "--class", dest="qualname", metavar="NAME", help="the original class (default: Model, or the only)"
    )
    what.add_argument(
        "--candidate-class", metavar="NAME", help="the class to judge, at module level (default: ModelNew)"
    )
    what.add_argument(
        "--mode",
        choices=tuple(mode.value for mode in Mode),
        help="module mode to compare and time in (default: eval; as-constructed with --settings kernelbench)",
    )

    how = parser.add_argument_group("how")
    how.add_argument(
        "--device",
        choices=tuple(choice.value for choice in DeviceChoice),
        default=DeviceChoice.AUTO.value,
        help="where to run (default: a GPU if any)",
    )
    how.add_argument(
        "--settings",
        choices=tuple(PRESETS),
        default="default",
        help="kernelbench: five checks with the reference's own inputs and a hundred timed calls with a flushed cache, "
        "as that suite's evaluator makes them; tolerance, moved weights and layout rules stay those of default",
    )
    how.add_argument(
        "--baselines",
        choices=BASELINES,
        default=BASELINES[0],
        metavar="LIST",
        help=f"what to time it against: {' or '.join(BASELINES)}; max-autotune is torch.compile in that mode, timed "
        "beside the candidate with --final (default: %(default)s)",
    )
    how.add_argument(
        "--final",
        action="store_true",
        help="judge it as the proposal of a run is: built as stock torch builds it, and on a GPU memory checks",
    )
    how.add_argument("--counters", action="store_true", help="read hardware counters too, where permitted (slow)")
    how.add_argument("--python", metavar="INTERPRETER", help="the Python that has torch (default: the project's)")
    options.add_isolation(how)
    options.add_set(how)

    result = parser.add_argument_group("result")
    result.add_argument("--json", metavar="OUT", help='write the whole verdict to OUT, "-" for standard output')


def run(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    if args.json and args.json != "-":
        documents.check_writable(Path(args.json))
    result = results.Report(args.json)
    return result.of(lambda: _judge(args, result, Log()))


def _judge(args: argparse.Namespace, result: Report, log: Log) -> int:
    settings = _settings(args)
    problem = _problem(args)
    document, candidate = documents.candidate(
        *documents.target(args.candidate, args.candidate_class, "--candidate-class")
    )
    found = find_interpreter(args.python, problem.path, (os.getcwd(),))
    log(f"Python: {found}")
    for text in found.passed_over:
        print(text, file=sys.stderr)

    out = console.make(to_stderr=args.json == "-", unread=True)
    names = f"{candidate.class_name} in {console.short_path(document.path)}"
    against = f"{problem.qualname} in {console.short_path(problem.path)}"
    console.line(out, f"STARK: judging {names} against {against}", "bold")
    with Steps(console.make(to_stderr=True)) as steps:
        final = args.final or settings.compile_baseline
        work = judge_once(
            problem,
            candidate,
            interpreter=found.path,
            settings=settings,
            final=final,
            tools=args.final,
            log=log,
            tell=steps,
        )
        outcome = driver.until_stopped(work)
    if outcome.value is None:
        result.write(results.of_error(StarkError("Stopped.")))
        print("Stopped.", file=sys.stderr)
        return 128 + (outcome.signal or 0)
    reference, verdict = outcome.value
    out.print()
    evidence.show(out, reference, verdict)
    about = {
        "reference": {"path": problem.path, "class": problem.qualname, "mode": problem.mode.value},
        "candidate": {"path": str(document.path), "class": candidate.class_name, "digest": candidate.digest},
        "settings": args.settings,
        "set": options.adjustments(args.adjusted),
    }
    result.write(results.of_verdict(reference, verdict, **about))
    return failures.OK if verdict.ok else NOT_OK


def _settings(args: argparse.Namespace) -> EvaluationSettings:
    chosen = replace(
        PRESETS[args.settings],
        compile_baseline="compile" in args.baselines.split(","),
        max_autotune="max-autotune" in args.baselines.split(","),
        isolation=Isolation(args.isolation),
        counters=args.counters,
    )
    return adjust.adjusted(chosen, options.adjustments(args.adjusted))


def _problem(args: argparse.Namespace) -> Problem:
    mode = args.mode or (Mode.AS_CONSTRUCTED if args.settings == "kernelbench" else Mode.EVAL)
    file, qualname = documents.target(args.reference, args.qualname, "--class")
    return documents.problem(file, qualname, mode=Mode(mode), device=DeviceChoice(args.device))[1]
