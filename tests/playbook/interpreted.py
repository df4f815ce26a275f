"""Runs candidates of recorded programs by Triton's interpreter, and prints which do not compute what their module does.

    TRITON_INTERPRET=1 python -m tests.playbook.interpreted NAME …

In a process of its own, since Triton decides at its import whether it interprets.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import torch
import triton.language

from stark_lsp.discovery.problems import make_problem
from stark_lsp.playbook.inductor.proposal import AsCompiled

from .conftest import load

FOLDER = Path(__file__).parent.parent / "data" / "inductor"


class Libdevice:
    """Functions of CUDA's library by those of the language, which the interpreter knows."""

    def __getattr__(self, name: str) -> Any:
        return getattr(triton.language, name)


def difference(name: str, folder: Path) -> str:
    """Return how a candidate differs from its module, nothing if it does not."""
    kept = json.loads((FOLDER / f"{name}.json").read_text())
    path = folder / f"{name}.py"
    path.write_text(kept["text"])
    source = AsCompiled(make_problem(str(path), kept["text"], "Model"), kept["made"]).candidate.source
    # The interpreter knows no products in parts.
    source = re.sub(r'input_precision="bf16x\d"', 'input_precision="ieee"', source)
    # It takes a statement after the other, for however many lanes.
    source = source.replace("to_wide, 64\n", "to_wide, 2048\n")
    new_path = folder / f"{name}_new.py"
    new_path.write_text(source)
    old, new = load(path, path.stem), load(new_path, new_path.stem)
    if hasattr(new, "libdevice"):
        new.libdevice = Libdevice()  # type: ignore[attr-defined]
    torch.manual_seed(0)
    model, candidate = old.Model().eval(), new.ModelNew().eval()
    candidate.load_state_dict(model.state_dict())
    inputs = old.get_inputs()
    weights = candidate.state_dict()
    expressions = dict.fromkeys(one["expression"] for one in kept["made"]["arguments"])
    paths = [re.sub(r"\[(\d+)\]", r".\1", text[5:]) for text in expressions if text.startswith("self.")]
    told = ""
    sizes = kept["made"].get("sizes", {"known": {}, "inputs": {}})
    for number in (0, 1, 3, 13) if sizes["known"] else (0,):
        # The sizes that may be any are one more each; the inputs are called in the order in which they are given.
        others = {name: number + place for place, name in enumerate(sizes["known"])} if number else sizes["known"]
        given = [_sized(x, one["shape"], others) for x, one in zip(inputs, sizes["inputs"].values(), strict=False)]
        given += inputs[len(given) :]
        with torch.no_grad():
            expected = model(*given)
            found = eval(kept["made"]["result"], {"out": candidate._compiled(*given, *(weights[one] for one in paths))})
        try:
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        except AssertionError as error:
            told += f"{number or 'as given'}: {error}"
    return told


def _sized(x: torch.Tensor, shape: list[str], sizes: dict[str, int]) -> torch.Tensor:
    """Return an input in other sizes, of those that have a name in its shape."""
    for dim, name in enumerate(shape):
        if name in sizes:
            x = torch.cat([x] * -(-sizes[name] // x.shape[dim]), dim).narrow(dim, 0, sizes[name])
    return x.contiguous()


def main() -> None:
    """Try each, and print a JSON object."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:]:
            try:
                found[name] = difference(name, Path(folder))
            except Exception:  # noqa: BLE001 - told by the test
                found[name] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
