"""What is fused and what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from stark_lsp.playbook import regions
from stark_lsp.playbook.fusible import Role, prepare
from stark_lsp.playbook.graph import read_graph
from stark_lsp.playbook.regions import find_regions

from .conftest import Bench
from .playbook_cases import BY_NAME, forward, text_of


def words(bench: Callable[..., Bench], body: str, inputs: str, arguments: str = "x") -> list[tuple[str, ...]]:
    case = forward("x", body, inputs, arguments=arguments)
    prepared = prepare(read_graph(bench(text_of(case)).analysis))
    found = [tuple(prepared.fusible[n].word for n in region.nodes) for region in find_regions(prepared)]
    return sorted(found)


def test_reductions_over_different_dims_become_different_kernels(bench: Callable[..., Bench]) -> None:
    body = "p = F.log_softmax(x * 2, -1)\nreturn -(p * p).sum(-1).mean()"
    assert words(bench, body, "[torch.randn(64, 128)]") == [("mean", "neg"), ("mul", "log_softmax", "mul", "sum")]


def test_a_product_in_between_is_not_fused_around(bench: Callable[..., Bench]) -> None:
    body = "a = torch.tanh(x) * 2\nb = a @ a\nreturn (a + b) * 0.5"
    found = words(bench, body, "[torch.randn(64, 64)]")
    assert found == [("add", "mul"), ("tanh", "mul")]


def test_two_groups_that_need_each_other_are_not_contracted_into_a_circle(bench: Callable[..., Bench]) -> None:
    body = (
        "a = torch.tanh(x) + 1\nb = torch.exp(y) + 1\nc = a @ b\nd = b @ a\n"
        "e = torch.sigmoid(c) * a + b\nf = torch.relu(d) * b + a\nreturn e, f"
    )
    one = bench(text_of(forward("x", body, "[torch.randn(32, 32), torch.randn(32, 32)]", arguments="x, y")))
    assert one.attempt().candidate.source


def test_transposed_operands_are_fused_only_where_all_lie_alike(bench: Callable[..., Bench]) -> None:
    assert words(bench, "return torch.tanh(x.t() * 2 + 1)", "[torch.randn(64, 32)]") == [("mul", "add", "tanh")]
    apart = "y = x.t()\nreturn torch.tanh(y * 2 + z)"
    assert words(bench, apart, "[torch.randn(64, 32), torch.randn(32, 64)]", "x, z") == []


def test_what_cannot_be_written_for_whole_numbers_stays_in_pytorch(bench: Callable[..., Bench]) -> None:
    body = "n = torch.div(i, 3, rounding_mode='trunc')\nreturn torch.tanh(x + n) * 2"
    inputs = "[torch.randn(64, 32), torch.randint(0, 40, (64, 32))]"
    assert words(bench, body, inputs, "x, i") == [("add", "tanh", "mul")]


def test_what_changes_a_view_in_place_is_written_in_place(bench: Callable[..., Bench]) -> None:
    body = "x = x * 1.0\ny = x[0]\ny **= 2\nreturn torch.tanh(x) * 2 + 1"
    one = bench(text_of(forward("x", body, "[torch.randn(64, 32)]")))
    assert "y = y.pow_(2)" in one.attempt().candidate.source


def test_half_of_a_chunk_is_read_in_place(bench: Callable[..., Bench]) -> None:
    body = "a, b = x.chunk(2, -1)\nreturn F.silu(a) * b"
    assert words(bench, body, "[torch.randn(64, 64)]") == [("silu", "mul")]


def test_the_positions_of_maxima_keep_the_reduction_in_pytorch(bench: Callable[..., Bench]) -> None:
    body = "v, i = (x * 2).max(dim=-1)\nreturn v + 1, i"
    assert all("amax" not in group for group in words(bench, body, "[torch.randn(64, 64)]"))


def test_memory_that_others_see_is_not_fused_across(bench: Callable[..., Bench]) -> None:
    body = "y = x * 2\nz = y[:, :8]\ny.add_(1)\nreturn z + 1, torch.tanh(y) * 2"
    for group in words(bench, body, "[torch.randn(64, 64)]"):
        assert not {"mul", "tanh"} <= set(group) or group == ("tanh", "mul")


def test_only_pointwise_operations_are_taken_when_asked(bench: Callable[..., Bench]) -> None:
    one = bench(text_of(forward("x", "return F.softmax(torch.tanh(x) * 2, -1)", "[torch.randn(64, 64)]")))
    prepared = prepare(read_graph(one.analysis))
    regions = find_regions(prepared, lambda node: node.role is Role.POINTWISE)
    assert [tuple(prepared.fusible[n].word for n in r.nodes) for r in regions] == [("tanh", "mul")]


def test_few_long_rows_are_normalized_by_one_kernel_on_a_cpu_only(bench: Callable[..., Bench]) -> None:
    case = forward("x", "return F.layer_norm(x, (70000,)) * 2", "[torch.randn(2, 70000)]")
    graph = read_graph(bench(text_of(case)).analysis)
    assert [len(region.nodes) for region in find_regions(prepare(graph))] == [2]
    nodes = tuple(
        replace(node, outputs=tuple(replace(meta, device="cuda") for meta in node.outputs)) for node in graph.nodes
    )
    assert find_regions(prepare(replace(graph, device="cuda", nodes=nodes))) == []


@pytest.mark.parametrize("name", ["transformer_block", "one_name_of_two_ranks", "lerp_and_addc"])
def test_a_region_that_would_wait_for_itself_is_seen_from_where_it_can_be(
    name: str, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []
    near = regions.Finder._cyclic

    def both(self: regions.Finder, union: frozenset[int], group: dict[int, frozenset[int]], far: list[int]) -> bool:
        looked.append(near(self, union, group, far))
        assert looked[-1] == near(self, union, group, [len(far)] * len(far))  # looks at all that comes before
        return looked[-1]

    monkeypatch.setattr(regions.Finder, "_cyclic", both)
    bench(text_of(BY_NAME[name]))
    assert looked
