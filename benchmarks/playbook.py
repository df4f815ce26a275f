"""What the playbook reaches with no model: writes a suite of our own and runs `stark-lsp bench` on it.

    python benchmarks/playbook.py --out results --device cuda --budget 12 --baselines eager,compile
    python benchmarks/playbook.py --out again --subset 1/19,2/4     some rows again; with --resume, what is missing
    python benchmarks/playbook.py --out results-cpu --small         20 problems of sizes for a CPU

All options but `--small` and `--suite` are those of `stark-lsp bench`. `--subset representative` takes 30 of the
operators and everything else. Level 4 wraps blocks of timm, torchvision and transformers, where they are installed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from playbook_suite import missing, write

from stark_lsp import cli
from stark_lsp.bench import ledger, report, statistics, tables
from stark_lsp.bench.arms import by_arm
from stark_lsp.cli.terminal import failures

CACHE = Path(".cache")


def main() -> int:
    """Run the benchmark; return the exit code of `stark-lsp bench`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--small", action="store_true", help="20 of the problems, of sizes for a CPU, on the CPU")
    parser.add_argument("--suite", type=Path, help="where the suite is written (default: in .cache)")
    parser.add_argument("--out", type=Path, help="where results go (default: in .cache)")
    own, passed = parser.parse_known_args()
    name = "playbook_small" if own.small else "playbook"
    suite, out = own.suite or CACHE / f"{name}_suite", own.out or CACHE / name
    write(suite, own.small)
    for package, count in ({} if own.small else missing()).items():
        print(f"{package} is not installed, so {count} of its blocks are left out.", file=sys.stderr)
    # A later option wins, so these are defaults. Packages were looked for here, so this Python it is.
    defaults = ["--out", str(out), "--python", sys.executable, *(["--device", "cpu"] if own.small else [])]
    code = cli.main(["bench", str(suite), *defaults, *passed])
    if code != failures.BAD_INPUT and (out / ledger.NAME).is_file():
        arms = by_arm(report.merged(report.collect([out])))
        for level in sorted({level for rows in arms.values() for level in statistics.levels(rows)}):
            print(f"\n{tables.speeds(arms, level)}", end="")
    return code


if __name__ == "__main__":
    sys.exit(main())
