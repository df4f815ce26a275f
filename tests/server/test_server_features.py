"""Diagnostics, hovers, lenses and actions of a run, as pure functions of its view."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lsprotocol import types
from server_views import PATH, TEXT, URI, failed, hovered, node, plan, verified, view

from stark_lsp.core.editing import keep_ends
from stark_lsp.core.problem import Span
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Timing
from stark_lsp.playbook.strategies import STRATEGIES
from stark_lsp.proposals.package_kernels import SharedFile
from stark_lsp.server.client.abilities import ClientFacts, read_facts
from stark_lsp.server.features.code_actions import proposal_commands, run_commands, wanted
from stark_lsp.server.features.diagnostics import build, page_of
from stark_lsp.server.features.hover import hover_at
from stark_lsp.server.features.lenses import decision_commands
from stark_lsp.server.proposals.review import evidence
from stark_lsp.server.runs.views import Phase, RunView
from stark_lsp.server.text.documents import Change, Document
from stark_lsp.server.text.markup import unmarked
from stark_lsp.server.text.positions import Units
from stark_lsp.server.text.workspace_edits import Shape, by_the_editor, replacement, workspace_edit

UNITS = Units()


def diagnostics(shown: RunView, text: str = TEXT) -> list[types.Diagnostic]:
    return build([shown], keep_ends(text), UNITS, ClientFacts())


def test_a_plan_is_an_information_at_the_text_of_its_lines() -> None:
    (found,) = diagnostics(view(node(1, 0, plan("Fuse the chain"), None)))
    assert (found.source, found.severity, found.code) == ("STARK", types.DiagnosticSeverity.Information, "fuse")
    assert found.message == "Fuse the chain"
    assert found.range == types.Range(types.Position(6, 8), types.Position(7, 17))
    assert found.data == {"run": "abcd1234", "node": 1, "nodes": [1]}


def test_several_plans_at_one_place_are_one_diagnostic_with_the_best_of_them() -> None:
    slow, fast = node(1, 0, plan("Slow"), verified(1.2)), node(2, 0, plan("Fast"), verified(2.0))
    broken = node(3, 1, plan("Broken"), failed(VerdictStatus.COMPILE_ERROR, "no"))
    (found,) = diagnostics(view(slow, fast, broken))
    assert found.message == "Fast: 2.00x (1.90 to 2.10) vs eager (best of 3 attempts)"


def test_a_failure_says_what_it_was_in_our_own_words() -> None:
    (found,) = diagnostics(view(node(1, 0, plan("Try"), failed(VerdictStatus.CRASHED, "hostile <b>"))))
    assert found.message == "Try: crashed"


def test_a_plan_tells_its_other_places_and_those_that_it_goes_on_from() -> None:
    first = replace(plan("Begin", 5, 5), strategy="launch")
    second = plan("Go on", 6, 6)
    both = replace(second, anchors=(*second.anchors, replace(plan("", 8, 8).anchors[0], note="Return it at once")))
    shown = view(node(1, 0, first, verified(1.2)), node(2, 1, both, verified(1.5)))
    facts = ClientFacts(related_information=True, code_description=True)
    begin, go_on, _ = build([shown], keep_ends(TEXT), UNITS, facts)
    assert begin.related_information is None
    assert begin.code_description is not None
    assert begin.code_description.href.endswith("docs/playbook/launch.md")
    assert go_on.code_description is None, "no page is about it"
    told = go_on.related_information or ()
    assert [(each.location.uri, each.location.range.start.line, each.message) for each in told] == [
        (URI, 8, "Return it at once"),
        (URI, 5, "Goes on from attempt 1: Begin"),
    ]
    plain = build([shown], keep_ends(TEXT), UNITS, ClientFacts())
    assert {(each.related_information, each.code_description) for each in plain} == {(None, None)}


def test_a_plan_without_strategy_has_the_code_plan() -> None:
    (found,) = diagnostics(view(node(1, 0, plan("Idea", strategy=""), None)))
    assert found.code == "plan"


@pytest.mark.parametrize("strategy", ["as-compiled", "tune", "leave", *STRATEGIES])
def test_every_strategy_of_the_playbook_has_a_page(strategy: str) -> None:
    assert page_of(strategy) is not None


def test_diagnostics_move_with_edits_above_and_vanish_with_their_text() -> None:
    shown = view(node(1, 0, plan("Fuse"), None))
    shown.edit(Change("# one\n# two\n", (0, 0), (0, 0)))
    text = "# one\n# two\n" + TEXT
    (found,) = diagnostics(shown, text)
    assert (found.range.start.line, found.range.end.line) == (8, 9)
    shown.edit(Change("", (8, 0), (10, 0)))
    assert diagnostics(shown, text) == []


def test_a_plan_made_after_an_edit_is_shown_where_its_lines_are_now() -> None:
    shown = view()
    shown.edit(Change("# new\n", (0, 0), (0, 0)))
    late = node(1, 0, plan("Late"), None)
    shown.add_plan(1, late.plan, "# new\n" + TEXT)
    (found,) = diagnostics(shown, "# new\n" + TEXT)
    assert found.range.start.line == 7


def test_anchors_are_found_again_after_a_change_nobody_told_of() -> None:
    shown = view(node(1, 0, plan("Fuse"), None))
    shown.resync("# disk\n" + TEXT)
    assert [item.span for item in shown.anchored()] == [Span(7, 8)]


def test_hover_tells_plan_attempts_lineage_baselines_and_environment() -> None:
    first = node(1, 0, plan("Fuse the chain"), failed(VerdictStatus.WRONG_RESULT, "off by 0.1"))
    second = node(2, 1, plan("Fuse the chain"), verified(2.0))
    found = hover_at([view(first, second)], 6)
    assert found is not None
    assert found[1] == [(6, 7)]
    words = unmarked(found[0])
    assert "STARK: Fuse the chain" in words
    assert "Read once." in words
    assert "2: 1.00 ms, 2.00x (1.90 to 2.10) vs eager · threads 2" in words
    assert "1: wrong result · threads 2 · off by 0.1" in words
    assert "Lineage 2 ← 1 ← 0 (your class)" in words
    assert "Baselines eager 2.00 ms · torch.compile 1.50 ms" in words
    assert "Measured on Some CPU, 2 threads; torch 2.13.0; 8x8 float32" in words


def test_baselines_beside_an_attempt_are_those_of_its_own_rounds() -> None:
    timed = replace(verified(2.0), eager=Timing(3.0, 2.9, 3.1, 9), compiled=Timing(2.5, 2.4, 2.6, 9))
    shown = view(node(1, 0, plan("Fuse"), timed))
    assert "Baselines eager 3.00 ms · torch.compile 2.50 ms" in hovered(shown)[1]
    assert shown.best is not None
    assert "Baselines: eager 3.00 ms, torch.compile 2.50 ms" in evidence(shown, shown.best)


def test_hover_elsewhere_says_nothing() -> None:
    shown = view(node(1, 0, plan("Fuse"), None))
    assert hover_at([shown], 5) is None
    assert hover_at([], 6) is None


def test_what_a_candidate_printed_cannot_become_markup() -> None:
    hostile = "[click](command:x) ![i](https://evil) <img> `x` # T"
    bad = node(1, 0, plan(hostile, advice=hostile), failed(VerdictStatus.RUNTIME_ERROR, hostile))
    outside_code = "".join(hovered(view(bad))[0].split("``")[::2])
    assert "](" not in outside_code.replace("\\](", "").replace("\\]\\(", "")
    assert "<img" not in outside_code.replace("\\<img", "")


def test_decisions_are_offered_for_an_open_proposal_only() -> None:
    item = node(1, 0, plan("Fuse"), verified(2.0))
    assert decision_commands(view(item, phase=Phase.RUNNING)) == []
    offered = decision_commands(view(item, phase=Phase.OFFERED))
    assert [command.title for command in offered] == ["Review", "Accept", "Reject"]
    assert {str(command.arguments) for command in offered} == {"[{'run': 'abcd1234'}]"}
    assert [command.command for command in run_commands(view(item))] == ["stark.cancel", "stark.pause"]
    assert [command.command for command in run_commands(view(item, phase=Phase.QUEUED))] == ["stark.cancel"]
    shown = view(item, phase=Phase.OFFERED)
    assert [command.title for command in [*proposal_commands(shown), *run_commands(shown)]] == [
        "Accept the STARK proposal for Model",
        "Review the STARK proposal for Model",
        "Reject the STARK proposal for Model",
        "Dismiss the STARK plans for Model",
    ]
    searching = view(phase=Phase.RUNNING)
    searching.kept = shown
    assert decision_commands(searching) == decision_commands(shown), "a proposal stays while a better one is sought"


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (None, True),
        ([""], True),
        (["refactor"], True),
        (["refactor.rewrite"], True),
        (["refactor.rewrite.more"], False),
        (["refactor.re"], False),
        (["source"], False),
        ([], False),
    ],
)
def test_actions_are_given_for_the_kinds_asked_for(only: list[str] | None, expected: bool) -> None:
    assert wanted("refactor.rewrite", only) is expected


def test_the_poorest_client_has_no_abilities() -> None:
    assert read_facts(types.ClientCapabilities()) == ClientFacts()


def test_a_client_that_cannot_be_told_to_pull_again_is_published_to() -> None:
    pulls = types.TextDocumentClientCapabilities(diagnostic=types.DiagnosticClientCapabilities())
    assert not read_facts(types.ClientCapabilities(text_document=pulls)).pull_diagnostics
    refresh = types.WorkspaceClientCapabilities(diagnostics=types.DiagnosticWorkspaceClientCapabilities(True))
    able = types.ClientCapabilities(text_document=pulls, workspace=refresh)
    assert read_facts(able).pull_diagnostics
    assert read_facts(able).pull_workspace
    assert not read_facts(able, "Neovim").pull_workspace


class Replaced:
    """One replacement, as `proposals.edit` has them."""

    def __init__(self, *place: int, text: str) -> None:
        self.start_line, self.start_column, self.end_line, self.end_column = place
        self.new_text = text


class Made:
    """A proposal's edit."""

    def __init__(self, edits: list[Replaced], new_file: object = None, shared: object = None) -> None:
        self.edits, self.new_file, self.shared = tuple(edits), new_file, shared


class Written:
    path = f"{PATH}.new.py"
    text = "x = 1\n"


SHAPE = Shape(URI, 7, TEXT, "STARK: 2x")


def test_an_edit_is_versioned_and_labelled_where_the_client_can() -> None:
    made = Made([Replaced(9, 0, 9, 0, text="\n")])
    facts = ClientFacts(apply_edit=True, document_changes=True, change_annotations=True)
    edit = workspace_edit(made, SHAPE, facts, UNITS)
    assert edit is not None
    assert edit.document_changes is not None
    (change,) = edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    assert (change.text_document.uri, change.text_document.version) == (URI, 7)
    assert isinstance(change.edits[0], types.AnnotatedTextEdit)
    assert edit.change_annotations is not None
    assert [label.needs_confirmation for label in edit.change_annotations.values()] == [False]


def test_an_edit_is_plain_for_a_poor_client() -> None:
    edit = workspace_edit(Made([Replaced(9, 0, 9, 0, text="\n")]), SHAPE, ClientFacts(), UNITS)
    assert edit is not None
    assert edit.document_changes is None
    assert list(edit.changes or {}) == [URI]


def test_a_new_file_is_created_by_the_client_without_overwriting() -> None:
    facts = ClientFacts(document_changes=True, create_files=True)
    edit = workspace_edit(Made([], Written()), SHAPE, facts, UNITS)
    assert edit is not None
    create, fill = edit.document_changes or ()
    assert isinstance(create, types.CreateFile)
    assert create.options == types.CreateFileOptions(overwrite=False, ignore_if_exists=False)
    assert isinstance(fill, types.TextDocumentEdit)
    assert fill.edits[0].new_text == "x = 1\n"
    assert workspace_edit(Made([], Written()), SHAPE, ClientFacts(), UNITS) is None


def test_the_file_that_kernels_share_comes_with_the_edit_where_the_client_can() -> None:
    facts = ClientFacts(document_changes=True, create_files=True)
    new, more = SharedFile("/p/_stark_kernels.py", None, "x = 1\n"), SharedFile("/p/_stark_kernels.py", "a\n", "a\nb\n")
    made = [Made([Replaced(9, 0, 9, 0, text="\n")], shared=shared) for shared in (new, more)]
    create, fill, document = getattr(workspace_edit(made[0], SHAPE, facts, UNITS), "document_changes", None) or ()
    assert isinstance(create, types.CreateFile)
    assert isinstance(fill, types.TextDocumentEdit)
    assert fill.edits[0].new_text == "x = 1\n"
    change, _ = getattr(workspace_edit(made[1], SHAPE, facts, UNITS), "document_changes", None) or ()
    assert isinstance(change, types.TextDocumentEdit)
    assert change.text_document.version is None
    assert change.edits[0] == types.TextEdit(types.Range(types.Position(1, 0), types.Position(1, 0)), "b\n")
    opened = Document("file:///p/_stark_kernels.py", "/p/_stark_kernels.py", 3, "a\n")
    edit = workspace_edit(made[1], replace(SHAPE, shared=opened), facts, UNITS)
    change, _ = getattr(edit, "document_changes", None) or ()
    assert isinstance(change, types.TextDocumentEdit)
    assert change.text_document.version == 3
    assert isinstance(document, types.TextDocumentEdit)
    assert [by_the_editor(shared, ClientFacts()) for shared in (new, more)] == [False, False]
    assert not by_the_editor(SharedFile("/p/_stark_kernels.py", "a\n", "a\n"), facts)


def test_an_insertion_is_versioned_where_the_client_can() -> None:
    assert replacement(URI, 3, (2, 2), "a\n", ClientFacts()).changes is not None
    rich = replacement(URI, 3, (2, 2), "a\n", ClientFacts(document_changes=True))
    assert rich.document_changes is not None
