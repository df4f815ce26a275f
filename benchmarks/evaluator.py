"""How long the judge takes from a candidate's source to its verdict, and how far its figures can be trusted.

    python benchmarks/evaluator.py --out results/            everything: single candidates, a queue, repeatability
    python benchmarks/evaluator.py --only single             one part
    python benchmarks/evaluator.py --only real               modules of 0.5 to 8 GiB, see evaluator_real.py
    python benchmarks/evaluator.py --problems gelu-small     one problem

Needs a GPU. Every candidate is judged by the settings that KernelBench's own evaluator has (five checks, a
hundred timed calls) unless --settings says otherwise; the problem is prepared before, as in a search. Cold is the
first judgement of a source by an empty cache, warm the later ones of the same source: the median of --warm of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluator_candidates import ONE_BY_ONE, REFERENCES, SIZES, UNCHANGED, Case, cases, queue, reference, source
from evaluator_real import REAL, Real

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput
from stark_lsp.core.problem import Problem
from stark_lsp.core.settings import PRESETS, EvaluationSettings
from stark_lsp.core.status import DeviceChoice, Dialect, Isolation
from stark_lsp.core.verdict import Verdict
from stark_lsp.discovery.problems import make_problem
from stark_lsp.evaluation.judge import WorkerJudge, open_judge

BOUNDS = {Dialect.RAW: 3.0, Dialect.INLINE: 8.0, Dialect.TRITON: 4.0}
"""Seconds a cold judgement may take, by dialect."""
WARM = 1.0
"""Seconds a warm one may take."""
QUEUED = "gelu-small"
"""The problem whose candidates are queued."""
THROUGHPUT = 15.0
"""Candidates a minute of a mixed queue."""
AGAIN = 0.02
"""Share by which the medians of one kernel may differ from their median."""
PREPARED_S, REAL_S = 30.0, 15.0
"""Seconds that preparing a module of ordinary size may take, and judging a candidate for it."""
CALM_S = 6.0
"""Pause before each candidate, in which processes that were used are replaced; a model takes longer to write one."""


def problem(folder: Path, function: str, size: str) -> Problem:
    """Write a reference to a file and return its problem."""
    path = folder / f"{function}_{size}.py"
    path.write_text(reference(function, size))
    return make_problem(str(path), path.read_text(), "Model", device=DeviceChoice.CUDA)


@asynccontextmanager
async def judging(folder: Path, function: str, size: str, settings: EvaluationSettings) -> AsyncIterator[WorkerJudge]:
    """Prepare a problem in a judge whose cache is in `folder`."""
    begin = time.monotonic()
    judge = await open_judge(
        problem(folder, function, size),
        interpreter=sys.executable,
        settings=settings,
        cache_dir=folder / "cache",
        log=lambda line: print(line, file=sys.stderr),
    )
    try:
        prepared = await judge.prepare(lambda text: None)
        took = time.monotonic() - begin
        print(
            f"\n{function} {size}: prepared in {took:.1f} s on {prepared.environment.device}, "
            f"isolation {prepared.environment.isolation}, eager {prepared.baselines.eager.median_ms * 1e3:.1f} us",
            flush=True,
        )
        for note in prepared.notes:
            print(f"  note: {note}")
        yield judge
    finally:
        await judge.close()


async def timed(judge: WorkerJudge, text: str, dialect: Dialect) -> tuple[Verdict, float]:
    """Judge a candidate; return the verdict and the seconds from source to verdict."""
    begin = time.monotonic()
    verdict = await judge.evaluate(Candidate(text, dialect))
    return verdict, time.monotonic() - begin


def stages(verdict: Verdict) -> str:
    """Return the seconds of each stage in one line."""
    return " ".join(f"{name} {seconds:.2f}" for name, seconds in verdict.stages_s)


async def single(judge: WorkerJudge, chosen: list[Case], again: int) -> list[dict[str, Any]]:
    """Judge each candidate cold, and so many times warm."""
    rows: list[dict[str, Any]] = []
    for case in chosen:
        await asyncio.sleep(CALM_S)
        rows.append(await row(judge, case, again))
        print_row(rows[-1])
    return rows


async def row(judge: WorkerJudge, case: Case, again: int) -> dict[str, Any]:
    """Judge one candidate once more than `again` times."""
    cold, cold_s = await timed(judge, case.source, case.dialect)
    repeated = [await timed(judge, case.source, case.dialect) for _ in range(again)]
    each_s = sorted(seconds for _, seconds in repeated)
    warm_s = statistics.median(each_s)
    # One whose stages go with the figure.
    warm = min(repeated, key=lambda found: abs(found[1] - warm_s))[0]
    speedup = warm.speedup_vs_eager
    return {
        "candidate": case.name,
        "dialect": case.dialect.value,
        "status": cold.status.value,
        "as_expected": all(found.status is case.expected for found in (cold, *(one for one, _ in repeated))),
        "message": cold.message[:300],
        "cold_s": cold_s,
        "warm_s": warm_s,
        "each_warm_s": each_s,
        "cold_stages": stages(cold),
        "warm_stages": stages(warm),
        "runtime_us": None if warm.runtime_ms is None else warm.runtime_ms * 1e3,
        "speedup": None if speedup is None else [speedup.value, speedup.low, speedup.high],
        "within": cold_s <= BOUNDS[case.dialect] and warm_s <= WARM,
    }


def print_row(row: dict[str, Any]) -> None:
    """Print one candidate."""
    mark = "" if row["within"] else "  over the bound"
    mark += "" if row["as_expected"] else f"  NOT AS EXPECTED {row['message']}"
    least, most = min(row["each_warm_s"]), max(row["each_warm_s"])
    print(
        f"  {row['candidate']:<32}{row['dialect']:<8}{row['status']:<15}cold {row['cold_s']:.2f} s  "
        f"warm {row['warm_s']:.2f} s ({least:.2f} to {most:.2f}){mark}\n"
        f"      cold: {row['cold_stages']}\n      warm: {row['warm_stages']}",
        flush=True,
    )


async def throughput(judge: WorkerJudge, salt: str) -> dict[str, Any]:
    """Judge a queue of mixed candidates, as many at a time as the judge takes."""
    every = queue(salt)
    begin = time.monotonic()
    verdicts = await asyncio.gather(*(judge.evaluate(Candidate(case.source, case.dialect)) for case in every))
    took = time.monotonic() - begin
    wrong = [
        f"{case.name} ({case.dialect.value}): {verdict.status.value} {verdict.message[:200]}"
        for case, verdict in zip(every, verdicts, strict=True)
        if verdict.status is not case.expected
    ]
    rate = 60 * len(every) / took
    print(f"queue: {len(every)} candidates in {took:.1f} s, {rate:.1f} a minute; not as expected: {wrong or 'none'}")
    told = noted(verdicts)
    for words, often in told.items():
        print(f"  {often} times: {words}", flush=True)
    return {"candidates": len(every), "seconds": took, "per_minute": rate, "not_as_expected": wrong, "notes": told}


def noted(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return how many verdicts have a note, by its words without figures."""
    kinds = [{re.sub(r"[0-9]+(\.[0-9]+)?", "#", note) for note in verdict.notes} for verdict in verdicts]
    return dict(Counter(kind for one in kinds for kind in one).most_common())


async def repeatability(judge: WorkerJudge, function: str, size: str, salt: str, times: int) -> dict[str, Any]:
    """Judge the same kernel as a proposal is judged, and the unchanged reference as an attempt, again and again."""
    found: dict[str, Any] = {"problem": f"{function} {size}", "kernel": None}
    if function in REFERENCES:
        kernel = Candidate(source(function, Dialect.RAW, salt=f"again_{salt}"))
        begin = time.monotonic()
        same = [await judge.confirm(kernel, tools=False) for _ in range(times)]
        found["kernel"] = spread("the kernel", same) | {"each_s": (time.monotonic() - begin) / times}
    text = reference(function, size).replace("class Model(", "class ModelNew(")
    begin = time.monotonic()
    unchanged = [await judge.evaluate(Candidate(text, Dialect.TORCH)) for _ in range(times)]
    found["unchanged"] = spread("the unchanged reference", unchanged) | {"each_s": (time.monotonic() - begin) / times}
    intervals = [verdict.speedup_vs_eager for verdict in unchanged if verdict.speedup_vs_eager is not None]
    contains = sum(interval.low <= 1.0 <= interval.high for interval in intervals)
    print(f"    {contains} of its {len(intervals)} intervals contain 1.0", flush=True)
    return found | {
        "intervals_with_1": contains,
        "intervals": [[interval.low, interval.value, interval.high] for interval in intervals],
    }


def spread(what: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Print and return how far apart the medians of one candidate are."""
    medians = [verdict.runtime.median_ms for verdict in verdicts if verdict.runtime is not None]
    middle = statistics.median(medians) if medians else float("nan")
    furthest = max((abs(value / middle - 1) for value in medians), default=float("nan"))
    deviation = statistics.pstdev(medians) / middle if medians else float("nan")
    print(
        f"  {what} again: {len(medians)} of {len(verdicts)} timed, median {middle * 1e3:.2f} us, "
        f"furthest from it {100 * furthest:.2f} %, standard deviation {100 * deviation:.2f} %",
        flush=True,
    )
    return {
        "statuses": [verdict.status.value for verdict in verdicts],
        "median_us": middle * 1e3,
        "medians_us": [1e3 * value for value in medians],
        "furthest_from_median": furthest,
        "deviation": deviation,
        "notes": noted(verdicts),
    }


def wanted(parts: list[str], name: str, size: str) -> bool:
    """Whether a problem has something to measure for these parts."""
    function = name.partition("-")[0]
    one_by_one = "single" in parts and size in ONE_BY_ONE and function in REFERENCES
    return "repeat" in parts or one_by_one or ("queue" in parts and name == QUEUED)


async def real(folder: Path, one: Real, settings: EvaluationSettings, times: int) -> dict[str, Any]:
    """Prepare a module of ordinary size, judge an honest candidate some times and a wrong one once."""
    path = folder / f"real_{one.name}.py"
    path.write_text(one.reference)
    row: dict[str, Any] = {"name": one.name, "notes": []}
    watch = Memory()
    begin = time.monotonic()
    judge = await open_judge(
        make_problem(str(path), one.reference, "Model", device=DeviceChoice.CUDA),
        interpreter=sys.executable,
        settings=settings,
        cache_dir=folder / "cache",
        log=lambda line: print(line, file=sys.stderr),
    )
    try:
        prepared = await judge.prepare(lambda text: None)
        row["prepared_s"] = time.monotonic() - begin
        row["notes"] += prepared.notes
        row["eager_ms"] = prepared.baselines.eager.median_ms
        row["honest"] = [await judged(judge, one.honest) for _ in range(times)]
        row["wrong"] = await judged(judge, one.cheat)
    except BadInput as error:
        row["refused"] = error.message
    finally:
        await judge.close()
        row["peak_gib"], row["half_gib"] = watch.end()
    return row


async def judged(judge: WorkerJudge, text: str) -> dict[str, Any]:
    """Judge a candidate and return what to look at."""
    verdict, seconds = await timed(judge, text, Dialect.TRITON)
    gain = verdict.speedup_vs_eager
    return {
        "status": verdict.status.value,
        "message": verdict.message,
        "seconds": seconds,
        "stages": stages(verdict),
        "speedup": [gain.value, gain.low, gain.high] if gain else None,
        "notes": list(verdict.notes),
    }


class Memory:
    """Watches how much memory of the GPU is in use, by all its processes."""

    def __init__(self) -> None:
        self._most = 0.0
        self._total = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        which = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
        query = ["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits", "-i", which]
        while not self._over.wait(0.3):
            used, total = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split(",")
            self._most, self._total = max(self._most, float(used) / 1024), float(total) / 1024

    def end(self) -> tuple[float, float]:
        """Return the most that was in use and half of what there is, in GiB."""
        self._over.set()
        self._thread.join()
        return self._most, self._total / 2


def held(row: dict[str, Any]) -> bool:
    """Whether a module of ordinary size was judged rightly, in time and memory."""
    if "refused" in row:
        return False
    right = all(one["status"] == "OK" for one in row["honest"]) and row["wrong"]["status"] not in ("OK", "CHEATED")
    quick = row["prepared_s"] <= PREPARED_S and max(one["seconds"] for one in row["honest"]) <= REAL_S
    return right and quick and row["peak_gib"] <= row["half_gib"]


def print_real(row: dict[str, Any]) -> None:
    """Print a row and what stands against it."""
    every = [*row.get("honest", []), row["wrong"]] if "wrong" in row else []
    told = " ".join(
        f"{one['status']} {one['seconds']:.1f}s" + (f" {one['speedup'][0]:.2f}x" if one["speedup"] else "")
        for one in every
    )
    print(
        f"{row['name']:17s} prepared {row.get('prepared_s', 0.0):5.1f} s  peak {row['peak_gib']:5.1f} GiB  "
        f"{row.get('refused', told)}  {'held' if held(row) else 'NOT HELD'}",
        flush=True,
    )
    for one in every:
        if one["status"] != "OK":
            print(f"    {one['message'][:200]}", flush=True)
    for note in dict.fromkeys([*row["notes"], *(note for one in every for note in one["notes"])]):
        print(f"    note: {note[:200]}", flush=True)


async def run(options: argparse.Namespace) -> int:
    """Run the parts that were asked for; returns 1 if a bound was passed."""
    settings = replace(
        PRESETS[options.settings], compile_baseline=False, isolation=Isolation(options.isolation), run_timeout_s=30.0
    )
    salt = secrets.token_hex(4)
    every = cases(salt)
    problems = options.problems or [
        *(f"{function}-{size}" for function in REFERENCES for size in SIZES),
        *(f"{function}-small" for function in UNCHANGED),
    ]
    parts = options.only or ["queue", "single", "repeat"]
    folder = Path(tempfile.mkdtemp(prefix="evaluator-"))
    result: dict[str, Any] = {"single": [], "repeat": [], "real": []}
    try:
        for one in REAL if "real" in parts else ():
            if options.problems is None or one.name in options.problems:
                result["real"].append(await real(folder, one, replace(settings, run_timeout_s=60.0), options.honest))
                print_real(result["real"][-1])
                save(options.out, result)
        for name in problems:
            function, _, size = name.partition("-")
            if not wanted(parts, name, size):
                continue
            async with judging(folder, function, size, settings) as judge:
                if "queue" in parts and name == QUEUED:
                    # First: what is made once for a machine is made meanwhile, as in a search.
                    result["queue"] = await throughput(judge, salt)
                if "single" in parts:
                    chosen = [case for case in every if (case.function, case.size) == (function, size)]
                    result["single"] += await single(judge, chosen, options.warm)
                if "repeat" in parts:
                    result["repeat"].append(await repeatability(judge, function, size, salt, options.times))
                save(options.out, result)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return int(not good(result))


def save(out: Path | None, result: dict[str, Any]) -> None:
    """Write what there is so far, so that a run that is cut off is not lost."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "evaluator.json").write_text(json.dumps(result, indent=1))


def repeated(kernel: dict[str, Any]) -> bool:
    """Whether a kernel was timed each time, with about the same result."""
    every = len(kernel["medians_us"]) == len(kernel["statuses"])
    return every and kernel["furthest_from_median"] <= AGAIN


def good(result: dict[str, Any]) -> bool:
    """Whether every bound was held."""
    single_good = all(row["within"] and row["as_expected"] for row in result["single"])
    queue_good = "queue" not in result or (
        result["queue"]["per_minute"] >= THROUGHPUT and not result["queue"]["not_as_expected"]
    )
    repeat_good = all(
        (item["kernel"] is None or repeated(item["kernel"]))
        and item["intervals_with_1"] >= 0.9 * len(item["unchanged"]["statuses"])
        for item in result["repeat"]
    )
    return single_good and queue_good and repeat_good and all(map(held, result["real"]))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["single", "queue", "repeat", "real"])
    parser.add_argument("--problems", nargs="+", help="such as gelu-small softmax-large; all by default")
    parser.add_argument("--settings", choices=sorted(PRESETS), default="kernelbench")
    parser.add_argument("--isolation", choices=[item.value for item in Isolation], default="auto")
    parser.add_argument("--times", type=int, default=20, help="repetitions of the repeatability part")
    parser.add_argument("--warm", type=int, default=3, help="warm judgements of each candidate")
    parser.add_argument("--honest", type=int, default=3, help="judgements of each honest candidate of --only real")
    parser.add_argument("--out", type=Path, help="folder for evaluator.json")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
