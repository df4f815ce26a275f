"""Where the inputs of a class go while its file is being edited."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from stark_lsp.core.editing import keep_ends
from stark_lsp.core.errors import BadInput
from stark_lsp.discovery.drafting import stubs
from stark_lsp.server.client.abilities import ClientFacts
from stark_lsp.server.features.inputs import MARK, Inputs, failed_functions
from stark_lsp.server.text.documents import Documents

URI = "file:///tmp/stark-server-tests/net.py"
TEXT = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


async def test_inputs_are_placed_in_the_text_as_it_is_when_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    documents, applied = Documents(), []
    document = documents.open(types.TextDocumentItem(URI, "python", 1, TEXT))

    def type_a_line() -> None:
        document.text, document.version = "\n" + document.text, document.version + 1
        document.lines = keep_ends(document.text)

    def placed(text: str, *others: Any) -> stubs.Stub:
        found = make_stub(text, *others)
        if document.version < 4:
            type_a_line()
        return found

    async def apply(edit: types.WorkspaceEdit, label: str) -> None:
        applied.append(edit)

    server: Any = SimpleNamespace(
        documents=documents,
        facts=ClientFacts(document_changes=True),
        apply=apply,
        refresh_lenses=lambda: None,
        spawn=lambda work, name: work.close(),
    )
    make_stub = stubs.make_stub
    stub = make_stub(TEXT, "Net")
    monkeypatch.setattr(stubs, "make_stub", placed)
    type_a_line()
    await Inputs(server)._write(URI, stub, BadInput("not tried"))
    (edit,) = applied
    (change,) = edit.document_changes
    assert change.text_document.version == document.version == 4
    assert change.edits[0].range.start.line == len(document.lines) == len(keep_ends(TEXT)) + 3


MARKED = f"""class First(nn.Module):
    def forward(self, x):
        return x + 1


# {MARK} no size was found.
def get_inputs_for_First():
    return [torch.randn(17, 23)]


class Second(nn.Module):
    def forward(self, x, k):
        return x[k]


# {MARK} KeyError 1
def get_init_inputs_for_Second():
    return []


def get_inputs_for_Second():
    return [torch.randn(4, 4), {{}}]


def get_inputs_for_Third():
    return []
"""


def test_functions_that_do_not_run_are_those_of_a_class() -> None:
    text = "import torch\nfrom torch import nn\n\n\n" + MARKED
    lines = text.split("\n")

    def found(name: str) -> list[str]:
        start, end = failed_functions(text, "/nowhere/model.py", name) or (0, 0)
        return lines[start:end]

    assert found("First")[0] == f"# {MARK} no size was found."
    assert found("First")[-1] == "    return [torch.randn(17, 23)]"
    assert found("Second")[0] == f"# {MARK} KeyError 1"
    assert found("Second")[-1] == "    return [torch.randn(4, 4), {}]"
    assert found("Fourth") == []
    assert failed_functions(text.replace(f"# {MARK} KeyError 1\n", ""), "/nowhere/model.py", "Second") is None
