"""A suite of problems for the playbook, of sizes that benchmarks for one GPU of 80 GB have.

Level 1 are single operators, level 2 chains of them, level 3 whole models, level 4 blocks of libraries.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from playbook_suite import blocks, chains, models, operators
from playbook_suite.problem import Problem

LEVELS: dict[int, tuple[Problem, ...]] = {
    1: operators.PROBLEMS,
    2: chains.PROBLEMS,
    3: models.PROBLEMS,
    4: blocks.PROBLEMS,
}


def missing() -> dict[str, int]:
    """Return which packages are not installed here, and of how many problems."""
    packages = [problem.package for problems in LEVELS.values() for problem in problems]
    return {name: packages.count(name) for name in dict.fromkeys(packages) if name and find_spec(name) is None}


def write(folder: Path, small: bool = False) -> None:
    """Write the suite as `stark-lsp bench` takes it, without what needs a package that is not installed.

    Representative are 30 operators, and all of the other levels.

    Parameters
    ----------
    small
        Only those that suit a CPU, with sizes for one; they are called as the large ones are.
    """
    lacking, chosen = missing(), []
    for level, problems in LEVELS.items():
        place = folder / f"level{level}"
        place.mkdir(parents=True, exist_ok=True)
        for old in place.glob("*.py"):
            old.unlink()
        for number, problem in enumerate(problems, 1):
            if problem.package in lacking or (small and not problem.cpu):
                continue
            (place / f"{number}_{problem.name}.py").write_text(problem.source(small))
            if level != 1 or problem.name in operators.REPRESENTATIVE:
                chosen.append(f"{level}/{number}\n")
    (folder / "representative.txt").write_text("".join(chosen))
