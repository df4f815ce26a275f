"""Inductor on a GPU: asked in other ways than `torch.compile` asks it, and watched while its kernels are launched.

What it tuned is in no text: the configuration of each kernel and its grid are read when the program runs.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch

from . import convolution, slim_template
from .frames import NotTraceable

TEMPLATES = {"mm": ("mm", "addmm"), "bmm": ("bmm", "baddbmm")}
"""Inductor's templates for matrix products, and the operations that each is for."""
BLOCKS = {
    (32, 32, 128, 2, 4),
    (64, 32, 32, 5, 8),
    (64, 64, 32, 2, 4),
    (64, 64, 64, 3, 8),
    (64, 128, 32, 3, 4),
    (64, 128, 32, 4, 8),
    (128, 64, 32, 3, 4),
    (128, 64, 32, 4, 8),
    (128, 128, 32, 2, 8),
    (128, 128, 32, 3, 4),
}
"""Of its configurations those that are tried: block sizes m, n and k, stages, warps. Larger ones take long to compile,
and numbers in parts want more registers than they leave."""
PRODUCT = "allow_tf32=ALLOW_TF32"
"""What stands in a template's `tl.dot` where the precision of its products is chosen."""
_TEMPLATES = {
    "convolutions": convolution.register,
    "halves": slim_template.register,
    "short-halves": slim_template.register,
}
"""What has Inductor write the operators that a family of rewrites makes."""
WAITS = "synchronizing CUDA operation"
"""What PyTorch says of a call that has the CPU wait, where that is an error."""
HIGH = "y_grid_raw_"
"""What Inductor calls the blocks along y of a grid that may be too high."""
HELPER = re.compile(r"\btriton_helpers\.(\w+)")


@contextlib.contextmanager
def by(recipe: Mapping[str, Any]) -> Iterator[None]:
    """Have Inductor write in another way than `torch.compile` asks for, see `inductor.program`.

    Raises
    ------
    NotTraceable
        This version of torch has nothing of the kind.
    """
    import torch._inductor.config

    for family in recipe.get("rewrites") or ():
        try:
            _TEMPLATES.get(family, bool)()
        except (ImportError, AttributeError, TypeError) as error:
            raise NotTraceable(f"torch {torch.__version__} has no templates as they are known here: {error}") from error
    options = dict(recipe.get("options") or {})
    missing = [name for name in options if not hasattr(torch._inductor.config, name)]
    if missing:
        raise NotTraceable(f"torch {torch.__version__} has no {missing[0]}")
    # Inductor does so too, but for what is kept for backward.
    options |= {"joint_custom_pre_pass": made_there} if hasattr(torch._inductor.config, "joint_custom_pre_pass") else {}
    with torch._inductor.config.patch(options), _products(str(recipe.get("products") or "")), _compiled_here():
        yield


def made_there(graph: torch.fx.Graph) -> None:
    """Have what a graph makes on the CPU and kernels on the GPU read, as the distances of places, be made there."""
    try:
        from torch._inductor.fx_passes.post_grad import ConstructorMoverPass
        from torch._inductor.fx_utils import FakeTensorUpdater
    except ImportError:
        return
    takes_module = "gm" in inspect.signature(FakeTensorUpdater).parameters
    updater = FakeTensorUpdater(graph.owning_module if takes_module else graph)
    ConstructorMoverPass("cuda")(graph)
    updater.incremental_update()


@contextlib.contextmanager
def _products(precision: str) -> Iterator[None]:
    """Have templates take products of float32 in the way that `tl.dot` knows by this name."""
    if not precision:
        yield
        return
    from torch._inductor.kernel import bmm, mm  # noqa: F401 - they make the templates
    from torch._inductor.select_algorithm import TritonTemplate

    changed = [TritonTemplate.all_templates[name] for name in TEMPLATES]
    before = [one.template for one in changed]
    for one in changed:
        one.template = types.SimpleNamespace(render=functools.partial(_rendered, one.template, precision))
        _forget(one)
    try:
        with _few_blocks(changed):
            yield
    finally:
        for one, template in zip(changed, before):
            one.template = template
            _forget(one)


@contextlib.contextmanager
def _compiled_here() -> Iterator[None]:
    """Have templates be compiled by threads: what Inductor's processes compile is compiled again to be timed."""
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    make = getattr(AlgorithmSelectorCache, "make_precompile_fn", None)
    if make is None or not hasattr(AsyncCompile, "use_process_pool"):
        yield
        return

    def made(*given: Any, **more: Any) -> Any:
        with mock.patch.object(AsyncCompile, "use_process_pool", return_value=False):
            return make(*given, **more)

    with mock.patch.object(AlgorithmSelectorCache, "make_precompile_fn", made):
        yield


@contextlib.contextmanager
def _few_blocks(templates: list[Any]) -> Iterator[None]:
    """Have only `BLOCKS` be tried, where this version of torch tells where its configurations are."""
    try:
        from torch._inductor.template_heuristics.registry import get_template_heuristic
    except ImportError:
        yield
        return
    with contextlib.ExitStack() as stack:
        for one in templates:
            for operation in TEMPLATES[one.name]:
                tuned = get_template_heuristic(one.uid, "cuda", operation)
                all_of_them = getattr(tuned, "mm_configs", [])
                few = [config for config in all_of_them if _blocks(config) in BLOCKS]
                if few:
                    tuned.mm_configs = few
                    stack.callback(setattr, tuned, "mm_configs", all_of_them)
        yield


def _blocks(config: Any) -> tuple[Any, ...]:
    return tuple(getattr(config, name, None) for name in ("block_m", "block_n", "block_k", "num_stages", "num_warps"))


def _forget(template: Any) -> None:
    """Drop what was rendered from a template, where it is kept."""
    kept = getattr(template, "_generated_code_cache", None)
    if kept is not None:
        kept.cache_clear()


def _rendered(template: Any, precision: str, *args: Any, **kwargs: Any) -> str:
    """Return the text of a jinja template with another precision in it."""
    return str(template.render(*args, **kwargs)).replace(PRODUCT, f'input_precision="{precision}"')


@contextlib.contextmanager
def never_waiting() -> Iterator[None]:
    """Refuse a call that has the CPU wait for the GPU, or copies from the CPU's memory: no CUDA graph can hold it.

    Raises
    ------
    NotTraceable
        It does so.
    """
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if WAITS not in str(error):
            raise
        raise NotTraceable("a call waits for the GPU") from error
    finally:
        torch.cuda.set_sync_debug_mode(before)


@contextlib.contextmanager
def noting() -> Iterator[list[dict[str, Any]]]:
    """Note the kernels that are launched in the block."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    launches: list[dict[str, Any]] = []
    run = CachingAutotuner.run

    def noted(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(tuner, *args, **kwargs)
        launches.append(_launch(tuner, args))
        return result

    with mock.patch.object(CachingAutotuner, "run", noted):
        yield launches


def found(launches: list[dict[str, Any]], code: str) -> dict[str, Any]:
    """Return launches with what else a program needs.

    Returns
    -------
    dict
        `launches`, in order: `kernel`, `grid`, `lengths` (the same as expressions of parameters; empty where it is not
        known), `fixed` (whether it is passed as three more arguments), `config` (of its parameters), `num_warps`,
        `num_stages`; `helpers`, by name the source of torch's own functions that
        kernels call; `capability` of the GPU.
    """
    return {
        "launches": launches,
        "helpers": _helpers(HELPER.findall(code)),
        "capability": list(torch.cuda.get_device_capability()),
    }


def _launch(tuner: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    (launcher,) = tuner.launchers
    config = launcher.config
    _, grid = tuner._interpret_args_grid(args, config)
    return {
        "kernel": tuner.fn.__name__,
        "grid": [int(size) for size in grid],
        "lengths": _lengths(tuner, config, grid),
        "fixed": tuner.inductor_meta.get("grid_type") == "FixedGrid",
        "config": {name: value for name, value in config.kwargs.items() if name in tuner.fn.arg_names},
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }


def _lengths(tuner: Any, config: Any, found: Sequence[int]) -> list[str]:
    try:
        from torch._inductor.runtime.triton_heuristics import GridExpr

        grid = GridExpr.from_meta(tuner.inductor_meta, config)
    except (ImportError, KeyError, AssertionError):  # another torch's
        return []
    # Where there may be more blocks than a grid is high, the rest goes along z; `Batch.told` asks for no more.
    high = dict(line.split(" = ") for line in grid.prefix).get(HIGH)
    lengths = [grid.x_grid, high or grid.y_grid, 1 if high else grid.z_grid]
    return list(map(str, lengths)) if not grid.prefix or (high and found[2] == 1) else []


def _helpers(names: list[str]) -> dict[str, str]:
    """Return the sources of functions of `triton_helpers`, with those that they call."""
    from torch._inductor.runtime import triton_helpers

    found: dict[str, str] = {}
    wanted = [name for name in dict.fromkeys(names) if name != "set_driver_to_gpu"]
    while wanted:
        name = wanted.pop()
        function = getattr(getattr(triton_helpers, name, None), "fn", None)
        if function is None:
            raise NotTraceable(f"its kernels call {name}, which is not written in Triton")
        found[name] = text = inspect.getsource(function)
        called = {item.id for item in ast.walk(ast.parse(text)) if isinstance(item, ast.Name)}
        of_torch = [one for one in sorted(called) if hasattr(getattr(triton_helpers, one, None), "fn")]
        wanted += [one for one in of_torch if one not in found]
    return found
