"""Inductor's templates, as ours are made and chosen from."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch


def template(name: str, source: str, grid: Callable[..., Any]) -> Any:
    """Return a template of this text, in which `VAL_SHAPE` stands behind the arguments of `store_output`.

    Raises
    ------
    ImportError, AttributeError, TypeError
        This version of torch has other templates.
    """
    from torch._inductor.select_algorithm import SymbolicGridFn, TritonTemplate, TritonTemplateKernel

    shaped = "val_shape" in inspect.signature(TritonTemplateKernel.store_output).parameters
    source = source.replace("VAL_SHAPE", ', val_shape=("BLOCK_M", "BLOCK_N")' if shaped else "")
    return TritonTemplate(name=name, grid=SymbolicGridFn(grid), source=source)


def fastest(name: str, made_from: Any, given: list[Any], shape: list[int], blocks: list[dict[str, Any]]) -> Any:
    """Return a result of float32 without gaps, by the fastest of a template's blocks.

    Parameters
    ----------
    blocks
        For each what the template is told: `num_stages`, `num_warps` and the numbers that it names.
    """
    from torch._inductor import ir
    from torch._inductor.select_algorithm import autotune_select_algorithm

    layout = ir.FixedLayout(given[0].get_device(), torch.float32, shape, strides(shape))
    choices: list[Any] = []
    for known in blocks:
        made_from.maybe_append_choice(choices, input_nodes=tuple(given), layout=layout, **known)
    made = autotune_select_algorithm(name, choices, given, layout)
    return made[0] if isinstance(made, tuple) else made


def strides(shape: list[int]) -> list[int]:
    """Return how far apart numbers are in memory, along each dimension, without gaps."""
    return [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
