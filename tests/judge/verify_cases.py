"""A reference and candidates for it in one process: the judge's own verifier with the runner's own forward call."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from stark_lsp.judge.correctness import forward, ieee, stepping
from stark_lsp.judge.correctness.classify import Failed, Finding
from stark_lsp.judge.correctness.state import State
from stark_lsp.judge.correctness.verify import Verifier
from stark_lsp.judge.reference import modules
from stark_lsp.judge.reference.reference import Reference
from stark_lsp.judge.transport import tensorfile

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


def module_text(body: str, *, name: str = "Model", init: str = "", arguments: str = "x", before: str = "") -> str:
    """Return a file with a module whose forward has the given body."""
    text = f"{HEAD}{textwrap.dedent(before)}\n\nclass {name}(nn.Module):\n"
    if init:
        text += "    def __init__(self):\n        super().__init__()\n" + textwrap.indent(
            textwrap.dedent(init), " " * 8
        )
    return text + f"\n    def forward(self, {arguments}):\n" + textwrap.indent(textwrap.dedent(body), " " * 8) + "\n"


def make_reference(
    folder: Path,
    body: str,
    inputs: str,
    *,
    init: str = "",
    arguments: str = "x",
    before: str = "",
    mode: str = "eval",
    seeds: int = 3,
    special_inputs: bool = True,
    gradients: bool = False,
    table: dict[str, Any] | None = None,
    drawn: int = 0,
) -> Reference:
    """Prepare the reference whose forward has the given body, on the CPU; the table says how it is used.

    What users' judges draw where nobody can know it before is drawn by the seed `drawn` here: of such inputs one in
    some hundred hides a small mistake, which a test that finds it has to be spared.
    """
    text = (
        module_text(body, init=init, arguments=arguments, before=before)
        + f"\n\ndef get_inputs():\n    return [{inputs}]\n"
    )
    folder.mkdir(exist_ok=True)
    problem = {
        "path": str(folder / "reference_module.py"),
        "text": text,
        "qualname": "Model",
        "mode": mode,
        "class_span": {"start": text.splitlines().index("class Model(nn.Module):"), "end": 0},
        "device": "cpu",
        "inputs": {"source": "functions", "inputs_function": "get_inputs", "init_function": None, "table": table or {}},
    }
    with mock.patch("secrets.SystemRandom", partial(random.Random, drawn)):
        return Reference(
            problem, seeds, str(folder), lambda text: None, special_inputs=special_inputs, gradients=gradients
        )


def verify(
    reference: Reference,
    folder: Path,
    body: str,
    *,
    init: str = "",
    arguments: str = "x",
    before: str = "",
    called: Callable[[dict[str, Any]], None] = lambda params: None,
) -> Verifier:
    """Verify a candidate whose forward has the given body.

    Parameters
    ----------
    called
        Told parameters and answer of each call once it is made; may write over the latter, and over its files.

    Raises
    ------
    Failed
    """
    folder.mkdir(exist_ok=True)
    scope: dict[str, Any] = {}
    text = module_text(body, name="ModelNew", init=init, arguments=arguments, before=before)
    exec(compile(text, "candidate.py", "exec"), scope)

    def construct(weights: str) -> Any:
        torch.manual_seed(modules.CONSTRUCTION_SEED)
        built = scope["ModelNew"]()
        built.load_state_dict(tensorfile.load(weights).tree())
        # What the class is converted to, candidates here say themselves.
        return modules.place(modules.used(built, "", reference.autocast, "cpu"), "cpu", reference.mode)

    runner = SimpleNamespace(files=SimpleNamespace(out=str(folder)), give=lambda path: path, exchange=None)
    holder: dict[Any, Any] = {}

    def hold(weights: str) -> None:
        given = {"before": {}, "after": {}}
        if reference.buffers is not None:
            given = tensorfile.load(reference.buffers.path).tree()
        holder["module"] = construct(weights)
        holder[False] = State(holder["module"], given["before"])
        holder[True] = holder[False].narrowed(given["after"])

    hold(reference.weights_path)
    calls = forward.Forward()

    def ask(stage: str, command: str, **params: Any) -> dict[str, Any]:
        if command == "rebuild":
            hold(params["weights"])
            return {}
        begun = holder[params.pop("further", False)]
        begun.put_back()
        if begun.missing:
            holder["module"].load_state_dict(begun.missing, strict=False)
        if command == "use_weights":
            given = tensorfile.load(params["weights"]).tree()
            module = holder["module"]
            modules.change_weights(module, given) if params["in_place"] else module.load_state_dict(given, strict=False)
            return {}
        if command == "buffers":
            given = tensorfile.load(params["inputs"]).tree()
            found = stepping.buffers_after(holder["module"], given, reference.mode, gradients=params["gradients"])
            tensorfile.save(params["outputs"], found)
            return {}
        try:
            answer = calls.run(holder["module"], None, mode=reference.mode, device="cpu", **params)
        except Exception as error:
            if params.get("converted"):
                raise Failed(Finding("RUNTIME_ERROR", str(error))) from error
            raise
        called({**params, "holding": list(calls._held), "answer": answer})
        return answer

    def without_tf32() -> list[torch.Tensor]:
        with ieee.allowing(False):
            module = construct(reference.weights_path)
            arguments = reference.arguments(reference.cases[0].inputs_path)
            return modules.tensors_of(stepping.step(module, arguments, reference.mode))

    verifier = Verifier(reference, ask, runner, "", without_tf32)  # type: ignore[arg-type]
    verifier.run()
    return verifier


def finding(reference: Reference, folder: Path, body: str, **options: Any) -> tuple[str, str]:
    """Return status and message of what is wrong with a candidate; `OK` and nothing if it is right."""
    try:
        verify(reference, folder, body, **options)
    except Failed as failure:
        return failure.finding.status, failure.finding.message
    return "OK", ""


def assert_refused(
    reference: Reference, folder: Path, body: str, words: str, *, status: str = "WRONG_RESULT", **options: Any
) -> None:
    """Check that a candidate is found to be wrong, with the words in the message."""
    found, message = finding(reference, folder, body, **options)
    assert found == status, message
    assert words in message
