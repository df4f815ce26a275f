"""Makes the moving picture of the README from the pictures that the scenario `four-clicks` takes.

python tests/editor/vscode/moving.py PICTURES docs/images/four-clicks.webp
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

SECONDS = {"1-lens": 2.5, "2-plan": 4.0, "3-offer": 3.0, "4-diff": 4.0, "5-accepted": 4.0}
"""How long each picture stays."""


def main() -> None:
    """Read the pictures and write one file that shows them by turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path, help="the folder that --pictures named")
    parser.add_argument("file", type=Path, help="the .webp to write")
    args = parser.parse_args()
    first, *others = [Image.open(args.pictures / f"four-clicks-{name}.png").convert("RGB") for name in SECONDS]
    durations = [int(1000 * seconds) for seconds in SECONDS.values()]
    first.save(args.file, save_all=True, append_images=others, duration=durations, loop=0, lossless=True, method=6)
    print(f"{args.file}  ({args.file.stat().st_size / 1e3:.0f} kB)")


if __name__ == "__main__":
    main()
