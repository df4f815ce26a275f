"""The results of `optimize --json` and `judge --json`: their form is part of the public interface."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stark_lsp.cli.terminal.documents import write
from stark_lsp.cli.terminal.failures import as_stark_error
from stark_lsp.core.errors import StarkError
from stark_lsp.core.run import Node, Run
from stark_lsp.core.verdict import Interval, Reference, Timing, Verdict
from stark_lsp.core.wire import to_wire
from stark_lsp.store import RunStore

_AGAINST = ("speedup_vs_eager", "speedup_vs_compile", "speedup_vs_max_autotune")
_GAINS = (*_AGAINST, "speedup_without_gradients", "speedup_with_backward")


def of_run(run: Run, nodes: Mapping[int, Node], store: RunStore) -> dict[str, Any]:
    """Return the report of a run; times in milliseconds, `interval` is that of `speedup_vs_eager`.

    Raises
    ------
    Fault
        What the run cost, and what it was told, cannot be read from the store.
    """
    reference = run.reference
    baselines = reference.baselines if reference is not None else None
    return {
        "problem": {"path": run.problem.path, "class": run.problem.qualname, "mode": run.problem.mode.value},
        "device": reference.environment.device_type if reference is not None else None,
        "environment": to_wire(reference.environment) if reference is not None else None,
        "baselines": {
            "eager_ms": baselines.eager.median_ms if baselines is not None else None,
            "compile_ms": baselines.compile.median_ms if baselines is not None and baselines.compile else None,
            "compile_message": baselines.compile_message if baselines is not None else "",
            "max_autotune_ms": baselines.max_autotune.median_ms if baselines and baselines.max_autotune else None,
        },
        "attempts": [_attempt(nodes[number]) for number in sorted(nodes) if number != 0],
        "best": _best(nodes[run.best]) if run.best is not None else None,
        "run": {
            "id": run.id,
            "state": run.state.value,
            "message": run.message,
            "model": run.model,
            "system": run.settings.get("system"),
            "seed": run.seed,
            "created": run.created,
            "finished": run.finished,
        },
        "spend": to_wire(store.exchanges.spend(run.id)),
        "steering": [to_wire(said) for _, said in store.steerings.since(run.id)],
    }


def of_verdict(reference: Reference | None, verdict: Verdict, /, **about: Any) -> dict[str, Any]:
    """Return the report of one verdict: what a script looks for first, then all the rest.

    Parameters
    ----------
    reference
        None if it was not prepared.
    about
        What was judged, by name; stands at the end.

    Returns
    -------
    Times in milliseconds; `interval` is that of `speedup_vs_eager`, as for a run; all of them are in `intervals`.
    """
    runtime, gains = verdict.runtime, {name: getattr(verdict, name) for name in _GAINS}
    profile, environment = verdict.profile, verdict.environment
    if environment is None and reference is not None:
        environment = reference.environment
    baselines = reference.baselines if reference is not None else None
    stages: dict[str, float] = {}
    for name, seconds in verdict.stages_s:
        stages[name] = round(stages.get(name, 0.0) + seconds, 4)
    return {
        "status": verdict.status.value,
        "message": verdict.message,
        "line": verdict.line,
        "failed_in": verdict.failed_in.value if verdict.failed_in is not None else None,
        "runtime_ms": verdict.runtime_ms,
        "interval": _bounds(verdict.speedup_vs_eager),
        **{name: gain.value if gain is not None else None for name, gain in gains.items()},
        "errors": to_wire(verdict.errors) if verdict.errors is not None else None,
        "launched": [to_wire(launch) for launch in profile.launched] if profile is not None else [],
        "environment": to_wire(environment) if environment is not None else None,
        "isolation": environment.isolation if environment is not None else None,
        "stages_s": stages,
        "intervals": {
            "runtime_ms": [runtime.low_ms, runtime.high_ms] if runtime is not None else None,
            **{name: _bounds(gain) for name, gain in gains.items()},
        },
        "samples": runtime.n if runtime is not None else None,
        "compiler": [to_wire(message) for message in verdict.compiler],
        "weights_loaded": verdict.weights_loaded,
        "notes": list(dict.fromkeys([*(reference.notes if reference is not None else ()), *verdict.notes])),
        "profile": to_wire(profile) if profile is not None else None,
        "same_rounds": {
            "eager": _times(verdict.eager),
            "compile": _times(verdict.compiled),
            "max_autotune": _times(verdict.max_autotuned),
        },
        "baselines": {
            "eager": _times(baselines.eager) if baselines is not None else None,
            "compile": _times(baselines.compile) if baselines is not None else None,
            "compile_message": baselines.compile_message if baselines is not None else "",
            "max_autotune": _times(baselines.max_autotune) if baselines is not None else None,
            "max_autotune_message": baselines.max_autotune_message if baselines is not None else "",
        },
        "outputs": list(reference.outputs) if reference is not None else [],
        "log": verdict.log,
        **about,
    }


def _bounds(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _times(timing: Timing | None) -> dict[str, Any] | None:
    if timing is None:
        return None
    return {"ms": timing.median_ms, "interval": [timing.low_ms, timing.high_ms], "n": timing.n}


def of_error(error: StarkError) -> dict[str, Any]:
    """Return the report of a command that could not do its work."""
    return {
        "error": {"message": error.message, "path": error.path, "line": error.line, "cure": error.cure},
    }


class Report:
    """Where the result goes; only the first one is written.

    Parameters
    ----------
    out
        A file, written atomically; `-` for standard output; None for nowhere.
    """

    def __init__(self, out: str | None) -> None:
        self._out = out

    def of(self, work: Callable[[], int]) -> int:
        """Return what `work` does; if it fails, that is the result, and is raised as an error to show."""
        try:
            return work()
        except Exception as error:
            shown = as_stark_error(error)
            try:
                self.write(of_error(shown))
            except StarkError as second:
                print(second, file=sys.stderr)  # the first error is the one that ends the command
            raise shown from error

    def write(self, result: dict[str, Any]) -> None:
        """Write the result unless one was written before.

        Raises
        ------
        Fault
            The file cannot be written.
        """
        out, self._out = self._out, None
        if out is None:
            return
        text = json.dumps(result, indent=2) + "\n"
        if out == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        write(Path(out).absolute(), text.encode())


def _attempt(node: Node) -> dict[str, Any]:
    verdict = node.verdict
    speedup = verdict.speedup_vs_eager if verdict is not None else None
    return {
        "node": node.id,
        "parent": node.parent,
        "second_parent": node.second_parent,
        "agent": node.role.value,
        "plan": node.plan.title if node.plan is not None else None,
        "status": verdict.status.value if verdict is not None else None,
        "runtime_ms": verdict.runtime_ms if verdict is not None else None,
        "speedup_vs_eager": speedup.value if speedup is not None else None,
        "interval": _bounds(speedup),
        "corrections": node.corrections,
        "model": node.candidate.model,
        "message": verdict.message if verdict is not None else "",
        "notes": list(verdict.notes) if verdict is not None else [],
    }


def _best(node: Node) -> dict[str, Any]:
    verdict = node.verdict
    assert verdict is not None
    gains = {name: getattr(verdict, name) for name in _AGAINST}
    return {
        "node": node.id,
        "runtime_ms": verdict.runtime_ms,
        "eager_ms": verdict.eager.median_ms if verdict.eager is not None else None,
        "compile_ms": verdict.compiled.median_ms if verdict.compiled is not None else None,
        **{name: gain.value if gain is not None else None for name, gain in gains.items()},
        "interval": _bounds(verdict.speedup_vs_eager),
        "isolation": verdict.environment.isolation if verdict.environment is not None else None,
        "profile": to_wire(verdict.profile) if verdict.profile is not None else None,
        "notes": list(verdict.notes),
        "source": node.candidate.source,
    }
