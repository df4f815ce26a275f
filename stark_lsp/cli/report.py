"""The result of `stark-lsp optimize --json`: its form is part of the public interface."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stark_lsp.core.errors import StarkError
from stark_lsp.core.run import Node, Run
from stark_lsp.core.wire import to_wire


def of_run(run: Run, nodes: Mapping[int, Node]) -> dict[str, Any]:
    """Return the report of a run; times in milliseconds, `interval` is that of `speedup_vs_eager`."""
    reference = run.reference
    baselines = reference.baselines if reference is not None else None
    return {
        "problem": {"path": run.problem.path, "class": run.problem.qualname, "mode": run.problem.mode.value},
        "device": reference.environment.device_type if reference is not None else None,
        "environment": to_wire(reference.environment) if reference is not None else None,
        "baselines": {
            "eager_ms": baselines.eager.median_ms if baselines is not None else None,
            "compile_ms": baselines.compile.median_ms if baselines is not None and baselines.compile else None,
        },
        "attempts": [_attempt(nodes[number]) for number in sorted(nodes) if number != 0],
        "best": _best(nodes[run.best]) if run.best is not None else None,
        "run": {
            "id": run.id,
            "state": run.state.value,
            "message": run.message,
            "model": run.model,
            "seed": run.seed,
            "created": run.created,
            "finished": run.finished,
        },
    }


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
        from stark_lsp.cli.documents import write

        write(Path(out).absolute(), text.encode())


def _attempt(node: Node) -> dict[str, Any]:
    verdict = node.verdict
    return {
        "node": node.id,
        "parent": node.parent,
        "agent": node.role.value,
        "plan": node.plan.title if node.plan is not None else None,
        "status": verdict.status.value if verdict is not None else None,
        "runtime_ms": verdict.runtime_ms if verdict is not None else None,
        "message": verdict.message if verdict is not None else "",
    }


def _best(node: Node) -> dict[str, Any]:
    verdict = node.verdict
    assert verdict is not None
    eager, compiled = verdict.speedup_vs_eager, verdict.speedup_vs_compile
    return {
        "node": node.id,
        "runtime_ms": verdict.runtime_ms,
        "speedup_vs_eager": eager.value if eager is not None else None,
        "speedup_vs_compile": compiled.value if compiled is not None else None,
        "interval": [eager.low, eager.high] if eager is not None else None,
        "source": node.candidate.source,
    }
