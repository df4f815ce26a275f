"""What is written by hand in `prompts/kernels`: kernels behind operators `stark::NAME` of `judge/analysis/rewrites`.

Besides these, what candidates need around kernels: gradients, CUDA graphs, launches, a look at weights.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from stark_lsp.agents.prompts import built_in_dir

NAMES = ("attention", "depthwise", "rounded")
_TILES = "block, tile, stages = 128, 64, 2"


def written(name: str) -> str:
    """Return what a file holds besides imports."""
    return (built_in_dir() / "kernels" / f"{name}.py").read_text(encoding="utf-8").split("\n\n\n", 1)[1]


def differentiable(device: str, name: str = "differentiable") -> str:
    """Return what gives a kernel's result the gradients of a PyTorch form; autocast is off, as it was for kernels."""
    return written(name).replace('"cuda"', f'"{device}"')


def numbers(name: str, text: str) -> str:
    """Return a function that makes a tensor such as `torch.tensor([1, 2])`, once for each device."""
    given = text.removeprefix("torch.tensor(").removesuffix(")")
    rows = textwrap.wrap(given, 100, break_long_words=False, break_on_hyphens=False)
    return written("numbers").replace("NAME", name).replace("NUMBERS", ("\n" + " " * 12).join(rows))


def text(name: str, capability: Sequence[int], *, exact: bool = False) -> str:
    """Return the functions of a kernel for a GPU of this compute capability.

    Parameters
    ----------
    exact
        Whether products of tiles are taken in six bfloat16 parts throughout. Else scores are, since the exponential
        makes much of an error there, and values are taken in three.
    """
    made = written(name).replace("\n\n\n", "\n\n")  # as it stands in a block
    made = made.replace("bf16x3", "bf16x6") if exact else made
    # Tiles that fit into the shared memory, one of a mask in float32 among them.
    few = "1 if masked and not half else 2"
    if tuple(capability) == (8, 0):
        # Triton 3.8 takes more of it than others.
        tiles = "128, 64, 1 if not half and (masked or width > 64) else 2"
    elif capability[0] in (9, 10):
        # Fewer rows a block: more tiles that a causal mask takes out.
        tiles = "(64, 64, 2 if half else 1) if masked else (128, 64, 2 if width > 64 else 3)"
    else:
        tiles = f"(128, 64, {few}) if width <= 64 else (64, 32, {few})"
    return made.replace(_TILES, f"block, tile, stages = {tiles}")
