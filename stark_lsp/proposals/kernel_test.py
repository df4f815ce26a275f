"""A pytest file that holds an accepted class against the original one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stark_lsp.core.errors import BadInput
from stark_lsp.core.problem import InputSpec
from stark_lsp.core.status import InputSource
from stark_lsp.discovery.workspaces import project_root
from stark_lsp.proposals.module_file import free_path

_TEXT = '''\
"""{new} does what {original} of {file} does. Written by STARK for you to keep and change."""

import copy
import importlib
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[{up}]{below}))
module = importlib.import_module("{module}")

DEVICE = "{device}"
TOLERANCE = {{torch.float64: 1e-8, torch.float16: 1e-2, torch.bfloat16: 2e-2}}
"""For all other dtypes it is {usual}."""

# A kernel that cannot be built warns and leaves its work to PyTorch; here that is a failure.
pytestmark = {marks}


{inputs}

def arguments(value):
    """Positional and keyword arguments on the device."""
    args, kwargs = ((), value) if isinstance(value, dict) else (value, {{}})
    args = args if isinstance(args, (list, tuple)) else [args]
    return on_device(list(args)), on_device(kwargs)


def on_device(value):
    if isinstance(value, torch.Tensor):
        return value.to(DEVICE)
    if isinstance(value, dict):
        return {{key: on_device(item) for key, item in value.items()}}
    return type(value)([on_device(item) for item in value]) if type(value) in (list, tuple) else value


def build(cls):
    torch.manual_seed(0)
    args, kwargs = arguments(make_init_inputs())
    return cls(*args, **kwargs).to({to}){mode}


def both():
    """The original class, and the new one with the same weights."""
    original, new = build(module.{original}), build(module.{new})
    new.load_state_dict(original.state_dict())
    return original, new


def tensors(value):
    """All tensors in what a forward pass returned."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in tensors(item)] if isinstance(value, (list, tuple)) else []


def assert_close(found, expected):
    assert len(found) == len(expected)
    for new, old in zip(found, expected):
        assert (new.dtype, new.shape) == (old.dtype, old.shape)
        tolerance = TOLERANCE.get(old.dtype, {usual}) if old.is_floating_point() or old.is_complex() else 0
        largest = float(old.detach().abs().max()) if tolerance and old.numel() else 0
        torch.testing.assert_close(new, old, rtol=tolerance, atol=tolerance * largest, equal_nan=True)


@pytest.mark.parametrize("seed", range(3))
def test_forward(seed):
    original, new = both()
    torch.manual_seed(seed)
    args, kwargs = arguments(make_inputs())
    with torch.no_grad(){under}:
        expected = tensors(original(*copy.deepcopy(args), **copy.deepcopy(kwargs)))
        assert_close(tensors(new(*args, **kwargs)), expected)


def gradients(model, args, kwargs):
    """What the parameters and the inputs get from a sum over all results."""
    inputs = [t.requires_grad_() for t in tensors([args, kwargs]) if t.is_floating_point()]
{gradients}
    if not results:
        pytest.skip("nothing here has a gradient")
    wanted = [*inputs, *(p for p in model.parameters() if p.requires_grad)]
    found = torch.autograd.grad(sum(t.float().square().sum() for t in results), wanted, allow_unused=True)
    return [torch.zeros_like(t) if grad is None else grad for t, grad in zip(wanted, found)]


def test_gradients():
    original, new = both()
    torch.manual_seed(0)
    args, kwargs = arguments(make_inputs())
    expected = gradients(original, *copy.deepcopy((args, kwargs)))
    assert_close(gradients(new, args, kwargs), expected)
'''


@dataclass(frozen=True)
class KernelTest:
    """A test file to create."""

    path: Path
    text: str


def kernel_test(
    path: Path,
    original: str,
    new: str,
    inputs: InputSpec,
    *,
    device: str,
    mode: str = ".eval()",
    weights_dtype: str = "",
    autocast: str = "",
) -> KernelTest:
    """Return the test of an accepted class.

    Parameters
    ----------
    path
        The file of both classes.
    original, new
        Their dotted names.
    inputs
        Where the original's inputs come from.
    device
        `cpu` or `cuda`: where the class was made for.
    mode
        What is called on a module to set its mode, empty for nothing.
    weights_dtype
        The dtype that modules are converted to, and
    autocast
        the one that calls are cast to; empty for none.

    Raises
    ------
    BadInput
        The class has no inputs.
    """
    if inputs.source is InputSource.NONE:
        raise BadInput(f"{original} has no inputs to test it with.", cure="Add get_inputs() first.", path=str(path))
    root = project_root(path)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", new.replace(".", "_")).lower()
    target = free_path(_folder(path, root) / f"test_{name}_stark.py")
    up, source, module = 0, _import_root(path), _module(path)
    while target.parents[up] not in (source, *source.parents):
        up += 1
    below = "".join(f' / "{part}"' for part in source.relative_to(target.parents[up]).parts)
    cuda = 'pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")'
    warns = 'pytest.mark.filterwarnings("error:PyTorch replaces")'
    under = f"torch.autocast(DEVICE, torch.{autocast})"
    results = "    results = [t for t in tensors(model(*args, **kwargs)) if t.requires_grad]"
    text = _TEXT.format(
        original=original,
        new=new,
        file=path.name,
        up=up,
        below=below,
        module=module,
        device=device,
        marks=f"[{warns}, {cuda}]" if device == "cuda" else warns,
        inputs=_inputs(inputs),
        mode=mode,
        to=f"DEVICE, torch.{weights_dtype}" if weights_dtype else "DEVICE",
        usual="2e-2" if autocast else "1e-4",
        under=f", {under}" if autocast else "",
        gradients=f"    with {under}:\n    {results}" if autocast else results,
    )
    return KernelTest(target, text)


def _folder(path: Path, root: Path) -> Path:
    """Return where the project keeps its tests: a folder of the root, or beside its files."""
    for folder in (root / "tests", root / "test", path.parent / "tests"):
        if folder.is_dir():
            return folder
    if any(path.parent.glob("test_*.py")):
        return path.parent
    return root / "tests"


def _import_root(path: Path) -> Path:
    """Return the folder from which a file is imported: the one above its outermost package."""
    folder = path.parent
    while (folder / "__init__.py").exists() and folder.parent != folder:
        folder = folder.parent
    return folder


def _module(path: Path) -> str:
    return ".".join(path.relative_to(_import_root(path)).with_suffix("").parts).removesuffix(".__init__")


def _inputs(spec: InputSpec) -> str:
    if spec.source is InputSource.FUNCTIONS:
        made = f"module.{spec.inputs_function or 'get_inputs'}()"
        init = f"module.{spec.init_function}()" if spec.init_function else "[]"
        return f"def make_inputs():\n    return {made}\n\n\ndef make_init_inputs():\n    return {init}\n"
    table = spec.table
    args = ", ".join(_entry(entry) for entry in table.get("args") or ())
    kwargs = ", ".join(f"{name!r}: {_entry(entry)}" for name, entry in (table.get("kwargs") or {}).items())
    init = _both(", ".join(map(repr, table.get("init_args") or ())), repr(table.get("init_kwargs") or {}))
    return (
        f"def make_inputs():\n    return {_both(args, f'{{{kwargs}}}')}\n\n\n"
        f"def make_init_inputs():\n    return {init}\n"
    )


def _both(args: str, kwargs: str) -> str:
    if args and kwargs != "{}":
        raise BadInput(
            "The class takes positional and keyword arguments from a table, which a test cannot repeat yet.",
            cure="Write all of them as kwargs.",
        )
    return kwargs if kwargs != "{}" else f"[{args}]"


def _entry(entry: Any) -> str:
    """Return one argument that a table describes, as Python; as the worker makes it."""
    if not isinstance(entry, dict):
        return repr(entry)
    kind = entry.get("kind", "value" if "shape" not in entry else "randn")
    if "shape" not in entry:
        return repr(entry["value"])
    shape, dtype = tuple(entry["shape"]), entry.get("dtype", "int64" if kind == "randint" else "float32")
    if kind == "randint":
        return f"torch.randint({entry.get('low', 0)}, {entry['high']}, {shape}).to(torch.{dtype})"
    if kind == "rand":
        low, high = float(entry.get("low", 0.0)), float(entry.get("high", 1.0))
        return f"(torch.rand({shape}) * {high - low} + {low}).to(torch.{dtype})"
    if kind == "randn":
        return f"torch.randn({shape}).to(torch.{dtype})"
    value = {"zeros": 0, "ones": 1}.get(kind, entry.get("value"))
    return f"torch.full({shape}, {value!r}, dtype=torch.{dtype})"
