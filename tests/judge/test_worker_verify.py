"""What a careless kernel does wrong on special inputs and with memory, each with an honest twin that passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from verify_cases import assert_refused, finding, make_reference, verify

from stark_lsp.contract.errors import Bad
from stark_lsp.judge.correctness import nearby
from stark_lsp.judge.inputs.cases import CaseKind
from stark_lsp.judge.reference.reference import Reference
from stark_lsp.judge.transport import tensorfile

RESULT = "torch.relu(x * self.weight + 1.0)"
HONEST = "return " + RESULT
WEIGHT = "self.weight = nn.Parameter(torch.randn(24))\n"


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return make_reference(tmp_path_factory.mktemp("r"), HONEST, "torch.randn(16, 24)", init=WEIGHT)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    folder = tmp_path_factory.mktemp("r")
    return make_reference(folder, "return x @ y", "torch.randn(48, 96), torch.randn(96, 32)", arguments="x, y")


@pytest.fixture(scope="module")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return make_reference(tmp_path_factory.mktemp("r"), "return torch.softmax(x, -1)", "torch.randn(8, 100)")


@pytest.fixture(scope="module")
def normalized(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return make_reference(tmp_path_factory.mktemp("r"), "return F.layer_norm(x, (200,))", "torch.randn(8, 200)")


def test_a_problem_gets_every_kind_of_case(scaled: Reference) -> None:
    # Its weight fits one length alone.
    assert {case.kind for case in [*scaled.cases, *scaled.special]} == set(CaseKind) - {CaseKind.LENGTH}
    assert [case.kind for case in scaled.cases] == [CaseKind.SEEDED, CaseKind.SEEDED, CaseKind.MOVED_WEIGHTS]


def test_special_inputs_can_be_switched_off(tmp_path: Path) -> None:
    reference = make_reference(tmp_path, "return x + 1", "torch.randn(4, 4)", special_inputs=False)
    assert not reference.special


def test_the_reference_itself_passes_with_the_figures_of_its_rounding(scaled: Reference, tmp_path: Path) -> None:
    verifier = verify(scaled, tmp_path, HONEST, init=WEIGHT)
    assert verifier.figures.max_abs == 0.0
    assert verifier.figures.float64_max_rel is not None
    assert 0.0 < verifier.figures.float64_max_rel < 1e-6


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("return torch.relu(x[:16] * self.weight + 1.0)[:3].repeat(6, 1)[:x.shape[0]]", "WRONG_RESULT", ""),
        ("y = " + RESULT + "\nif x.shape[0] < 8: y[0] = 0\nreturn y", "WRONG_RESULT", "a batch of 3 instead of 16"),
        ("x = x.as_strided(x.shape, (24, 1))\n" + HONEST, "NOT_FINITE", "not contiguous"),
        ("y = x * self.weight + 1.0\nreturn torch.where(y > 0, y, 0)", "WRONG_RESULT", "NaN"),
        ("y = (x * self.weight + 1.0).half().float()\nreturn torch.relu(y)", "WRONG_RESULT", ""),
        ("y = " + RESULT + "\nreturn y + ((y > 200) & (y < 1e9))", "WRONG_RESULT", "1000 times as large"),
        ("y = x * self.weight + 1.0\nreturn torch.relu(y) / (x != 0).any()", "NOT_FINITE", "all inputs zero"),
        ("y = torch.empty_like(x)\ny[:-1] = torch.relu(x * self.weight + 1.0)[:-1]\nreturn y", "NOT_FINITE", ""),
        (
            "near = (ctypes.c_float * x.numel()).from_address(x.data_ptr() + 4)\n"
            + (HONEST + " + torch.frombuffer(near, dtype=x.dtype).sum() * 0"),
            "NOT_FINITE",
            "",
        ),
        (HONEST + ".t().contiguous().t()", "WRONG_SHAPE", "not contiguous"),
        ("return torch.nn.Parameter(torch.relu(x * self.weight + 1.0)).as_subclass(Odd)", "WRONG_SHAPE", "Odd"),
        ("y = " + RESULT + "\nx.mul_(1 if x.is_contiguous() else 2)\nreturn y", "MUTATED_INPUT", "not contiguous"),
        ("y = torch.relu(x * self.weight + 1.0)\nreturn x.copy_(y)", "MUTATED_INPUT", "input number 1"),
    ],
)  # fmt: skip
def test_each_wrong_candidate_is_found_out(
    scaled: Reference, tmp_path: Path, body: str, status: str, words: str
) -> None:
    before = "import ctypes\n\nclass Odd(torch.Tensor):\n    pass\n"
    found, message = finding(scaled, tmp_path, body, init=WEIGHT, before=before)
    assert (found, words in message) == (status, True), (found, message)


@pytest.mark.parametrize(
    "body",
    [
        "return (x * self.weight + 1.0).clamp_min(0)",
        "y = x * self.weight + 1.0\nreturn torch.where(y < 0, 0, y)",
        "y = torch.empty(x.shape)\ny.copy_(torch.relu(x * self.weight + 1.0))\nreturn y",
        "return torch.stack([torch.relu(row * self.weight + 1.0) for row in x.unbind(0)])",
        "x = x.contiguous()\nx = x.as_strided(x.shape, (24, 1))\n" + HONEST,
        "return torch.relu(torch.addcmul(torch.ones_like(x), x, self.weight))",
    ],
)
def test_each_honest_candidate_passes(scaled: Reference, tmp_path: Path, body: str) -> None:
    assert finding(scaled, tmp_path, body, init=WEIGHT) == ("OK", "")


STATIC = "self.buffer = None\n"


def test_a_static_output_buffer_is_found_out(scaled: Reference, tmp_path: Path) -> None:
    body = """
    if self.buffer is None or self.buffer.shape != x.shape:
        self.buffer = torch.empty(x.shape)
    return torch.clamp_min(x * self.weight + 1.0, 0, out=self.buffer)
    """
    assert_refused(scaled, tmp_path, body, "earlier result", init=WEIGHT + STATIC)


def test_a_buffer_for_what_lies_between_is_honest(scaled: Reference, tmp_path: Path) -> None:
    body = """
    if self.buffer is None or self.buffer.shape != x.shape:
        self.buffer = torch.empty(x.shape)
    torch.mul(x, self.weight, out=self.buffer)
    return torch.relu(self.buffer + 1.0)
    """
    assert finding(scaled, tmp_path, body, init=WEIGHT + STATIC) == ("OK", "")


def test_the_last_result_handed_out_again_is_found_out(scaled: Reference, tmp_path: Path) -> None:
    # Every second call gives the memory of the call before it.
    body = """
    self.count += 1
    if self.count % 2 == 0 and self.buffer.shape == x.shape:
        return self.buffer.copy_(torch.relu(x * self.weight + 1.0))
    self.buffer = torch.relu(x * self.weight + 1.0)
    return self.buffer
    """
    assert_refused(scaled, tmp_path, body, "earlier", init=WEIGHT + STATIC + "self.count = 0\n")


def test_an_output_in_the_memory_of_an_input_or_weight_is_found_out(tmp_path: Path) -> None:
    init = "self.w = nn.Parameter(torch.randn(3))\n"
    body = "return x.clone(), self.w * 1.0, x.sum()"
    reference = make_reference(tmp_path / "r", body, "torch.randn(4, 4)", init=init)
    for body, words in (
        ("return x, self.w.clone(), x.sum()", "Output number 1 shares its memory with an input"),
        ("return x.clone(), self.w.detach(), x.sum()", "Output number 2 shares its memory with a weight"),
    ):
        assert_refused(reference, tmp_path / "c", body, words, init=init)
    assert finding(reference, tmp_path / "c", "return x + 0, self.w + 0, x.sum()", init=init) == ("OK", "")


def test_views_are_fine_where_the_reference_returns_one(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", "return x.t(), x[0].expand(3, 8)", "torch.randn(8, 8)")
    for body in ("return x.t(), x[0].expand(3, 8)", "return x.t().clone(), x[:1].repeat(3, 1)"):
        assert finding(reference, tmp_path / "c", body) == ("OK", "")


def test_a_dict_in_another_order_is_held_against_the_same_keys_in_values_and_in_memory(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", 'return {"twice": x * 2.0, "b": (x, x.sum())}', "torch.randn(7, 13)")
    for number, body in enumerate(
        (
            'return {"b": (x, x.sum()), "twice": x + x}',
            'return {"b": (x.clone(), x.sum()), "twice": x + x}',
        )
    ):
        assert finding(reference, tmp_path / str(number), body) == ("OK", "")
    reference = make_reference(tmp_path / "s", 'return {"a": x * 1.0, "b": x}', "torch.randn(7, 13)")
    found = finding(reference, tmp_path / "t", 'return {"b": x.clone(), "a": x}')
    assert "Output number 1 shares its memory with an input" in found[1]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("body", ["return x.flip(0)", "return (x.float() * 3).to(x.dtype)"])
def test_eight_bits_are_judged_like_other_types(tmp_path: Path, dtype: str, body: str) -> None:
    reference = make_reference(tmp_path / "r", body, f"torch.randn(8, 8).to(torch.{dtype})")
    assert finding(reference, tmp_path / "c", body) == ("OK", "")
    assert finding(reference, tmp_path / "c", "return x.clone()")[0] == "WRONG_RESULT"
    one = torch.ones(64).to(getattr(torch, dtype))
    assert nearby.moved(one, 1).dtype == one.dtype
    assert not torch.equal(nearby.moved(one, 1).float(), one.float())


def written_over(
    name: str, skeleton: Any, tensors: list[torch.Tensor], **head: Any
) -> Callable[[dict[str, Any]], None]:
    """Return what writes its own tree to one of the files of each call, as only a hostile process does."""

    def called(params: dict[str, Any]) -> None:
        if params.get(name) and (name != "outputs" or params["cotangents"]):
            heads = [{**tensorfile.capture(tensor, "cpu").heads[0], **head} for tensor in tensors]
            tensorfile.write(params[name], skeleton, tensors, heads=heads)

    return called


def answering(name: str, marks: Any) -> Callable[[dict[str, Any]], None]:
    """Return what answers with other marks, as only a hostile process does."""

    def called(params: dict[str, Any]) -> None:
        if name in params.get("marks", ()):
            params["answer"]["marks"][name] = marks

    return called


@pytest.mark.parametrize(
    ("hostile", "status"),
    [
        (answering("held", []), "WRONG_SHAPE"),
        (answering("held", ["1", None]), "WRONG_RESULT"),
        (answering("inputs", []), "MUTATED_INPUT"),
        (answering("inputs", 7), "WRONG_SHAPE"),
        (written_over("outputs", {"k": "dict", "v": 3}, []), "CHEATED"),
        (
            written_over(
                "outputs",
                {"k": "dict", "v": [["gradient of w", {"k": "tensor", "v": 0}]]},
                [torch.ones(13, dtype=torch.uint8)],
                dtype="uint4",
            ),
            "CHEATED",
        ),
    ],
    ids=["too few results", "odd results", "too few inputs", "odd inputs", "no gradients", "odd gradients"],
)
def test_whatever_a_process_writes_it_is_judged(
    tmp_path: Path, hostile: Callable[[dict[str, Any]], None], status: str
) -> None:
    body, init = 'return {"a": x * self.w, "b": x + 1.0}', "self.w = nn.Parameter(torch.randn(13))\n"
    how: dict[str, Any] = {"init": init, "gradients": True, "special_inputs": False}
    reference = make_reference(tmp_path / "r", body, "torch.randn(7, 13)", **how)
    turned = 'return {"b": x + 1.0, "a": x * self.w}'
    assert finding(reference, tmp_path / "c", turned, init=init) == ("OK", "")
    assert finding(reference, tmp_path / "c", turned, init=init, called=hostile)[0] == status


def test_outputs_share_no_memory_that_the_originals_do_not(tmp_path: Path) -> None:
    apart, one = "y = x * 2\nreturn y, y.clone()", "y = x * 2\nreturn y, y"
    parts = "y = torch.stack([x * 2, x * 2])\nreturn y[0], y[1]"
    reference = make_reference(tmp_path / "r", apart, "torch.randn(7, 13)", special_inputs=False)
    assert finding(reference, tmp_path / "c", parts) == ("OK", "")
    assert_refused(reference, tmp_path / "c", one, "shares its memory with another output")
    reference = make_reference(tmp_path / "r", one, "torch.randn(7, 13)", special_inputs=False)
    assert finding(reference, tmp_path / "c", one) == ("OK", "")


def test_a_result_is_held_until_it_was_looked_at_again(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", "return x * 2", "torch.randn(7, 13)", special_inputs=False)
    found: list[int] = []
    verify(reference, tmp_path / "c", "return x + x", called=lambda params: found.append(len(params["holding"])))
    assert found == [1, 1, 0, 0]


def test_an_expanded_output_is_found_out(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", "return x.sum(1, keepdim=True).repeat(1, 4)", "torch.randn(8, 8)")
    body = "return x.sum(1, keepdim=True).expand(-1, 4)"
    assert_refused(reference, tmp_path / "c", body, "expand()", status="WRONG_SHAPE")


SPLIT = "return sum(a @ b for a, b in zip(x.split(16, 1), y.split(16, 0)))"
ROUND = """
def cut(t, bits):
    whole = t.contiguous().view(torch.int32)
    return ((whole + (1 << (bits - 1))) & -(1 << bits)).view(torch.float32)
"""


@pytest.mark.parametrize(
    "body", [SPLIT, "return (y.t() @ x.t()).t().contiguous()", "return torch.einsum('ij,jk->ik', x, y)",
             "return (x.unsqueeze(2) * y).sum(1)", "return (x.double() @ y.double()).float()"]
)  # fmt: skip
def test_products_in_other_orders_are_honest(product: Reference, tmp_path: Path, body: str) -> None:
    assert finding(product, tmp_path, body, arguments="x, y") == ("OK", "")


@pytest.mark.parametrize(
    "body",
    [
        "return (x.bfloat16() @ y.bfloat16()).float()",
        "return x.bfloat16().float() @ y.bfloat16().float()",
        "return (x.half() @ y.half()).float()",
        "return cut(x, 13) @ cut(y, 13)",
    ],
)
def test_products_of_smaller_precision_are_found_out(product: Reference, tmp_path: Path, body: str) -> None:
    assert_refused(product, tmp_path, body, "of the largest value", arguments="x, y", before=ROUND)


ONLINE = """
m = torch.full((x.shape[0], 1), float('-inf'))
d = torch.zeros((x.shape[0], 1))
for part in x.split(16, 1):
    top = torch.maximum(m, part.amax(1, keepdim=True))
    d = d * torch.exp(m - top) + torch.exp(part - top).sum(1, keepdim=True)
    m = top
return torch.exp(x - m) / d
"""


def test_a_softmax_that_overflows_is_found_out_and_an_online_one_is_honest(softmax: Reference, tmp_path: Path) -> None:
    status, message = finding(softmax, tmp_path, "e = torch.exp(x)\nreturn e / e.sum(-1, keepdim=True)")
    assert status in ("NOT_FINITE", "WRONG_RESULT")
    assert "infinities" in message or "times as large" in message
    assert finding(softmax, tmp_path, ONLINE) == ("OK", "")
    assert finding(softmax, tmp_path, "return torch.exp(torch.log_softmax(x, -1))") == ("OK", "")


TREE = """
def tree(t):
    while t.shape[1] > 1:
        half = (t.shape[1] + 1) // 2
        t = F.pad(t, (0, 2 * half - t.shape[1]))
        t = t[:, :half] + t[:, half:]
    return t
"""


@pytest.mark.parametrize(
    "body",
    [
        "c = x - x.mean(1, keepdim=True)\nreturn c * torch.rsqrt((c * c).mean(1, keepdim=True) + 1e-5)",
        "m = x.mean(1, keepdim=True)\nreturn (x - m) / torch.sqrt((x * x).mean(1, keepdim=True) - m * m + 1e-5)",
        "m = tree(x) / 200\nreturn (x - m) * torch.rsqrt(tree((x - m) ** 2) / 200 + 1e-5)",
        "c = x - torch.cumsum(x, 1)[:, -1:] / 200\nreturn c * torch.rsqrt((c**2).mean(1, keepdim=True) + 1e-5)",
        "v, m = torch.var_mean(x, 1, keepdim=True, correction=0)\nr = torch.rsqrt(v + 1e-5)\n"
        "return torch.addcmul(-m * r, x, r)",
    ],
)  # fmt: skip
def test_variances_by_other_formulas_are_honest(normalized: Reference, tmp_path: Path, body: str) -> None:
    assert finding(normalized, tmp_path, body, before=TREE) == ("OK", "")


@pytest.mark.parametrize(
    "body",
    [
        "c = x - x.mean(1, keepdim=True)\nreturn c / (torch.sqrt((c * c).mean(1, keepdim=True)) + 1e-5)",
        "c = x - x.mean(1, keepdim=True)\nreturn c * torch.rsqrt((c * c).sum(1, keepdim=True) / 199 + 1e-5)",
        "c = x - x.mean(1, keepdim=True)\nreturn c * torch.rsqrt((c * c).mean(1, keepdim=True) + 1e-8)",
    ],
)
def test_variances_that_are_not_the_same_are_found_out(normalized: Reference, tmp_path: Path, body: str) -> None:
    status, message = finding(normalized, tmp_path, body)
    assert status == "WRONG_RESULT", message


def test_skipping_the_zeros_of_a_diagonal_or_triangular_factor_is_honest(tmp_path: Path) -> None:
    arguments = "x, y"
    diagonal = make_reference(
        tmp_path / "d", "return torch.diag(x) @ y", "torch.randn(24), torch.randn(24, 16)", arguments=arguments
    )
    assert finding(diagonal, tmp_path / "c", "return x.unsqueeze(1) * y", arguments=arguments) == ("OK", "")
    lower = make_reference(
        tmp_path / "l", "return torch.tril(x) @ y", "torch.randn(24, 24), torch.randn(24, 16)", arguments=arguments
    )
    body = "return torch.stack([x[i, : i + 1] @ y[: i + 1] for i in range(x.shape[0])])"
    assert finding(lower, tmp_path / "c", body, arguments=arguments) == ("OK", "")


def test_where_the_problem_is_ill_conditioned_an_honest_candidate_is_not_blamed(tmp_path: Path) -> None:
    # Scores a thousand times a thousand times as large leave nothing of the rounding of the exponent.
    body = "return torch.softmax(x @ y, -1)"
    reference = make_reference(
        tmp_path / "r", body, "torch.randn(16, 64), torch.randn(64, 16)", arguments="x, y", seeds=2
    )
    assert finding(reference, tmp_path / "c", "return torch.softmax((y.t() @ x.t()).t(), -1)", arguments="x, y") == (
        "OK",
        "",
    )


DECIDES = "scores = {}\nchosen = scores.argmax(1)\nreturn self.codes[chosen], chosen"
CODES = """w = torch.randn(256, 1)
self.register_buffer("w", torch.cat([w, w.flip(0)], 1))
self.register_buffer("codes", torch.randn(2, 8))
"""


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ("x.flip(1) @ self.w.flip(0)", "OK"),
        ("(x.double() @ self.w.double()).float()", "OK"),
        ("(x @ self.w).bfloat16()", "WRONG_RESULT"),
        ("torch.cat([x[:-100] @ self.w, x[-100:] @ self.w.flip(1)])", "WRONG_RESULT"),
        ("torch.cat([x[:-1] @ self.w, x[-1:] @ self.w.flip(1)])", "WRONG_RESULT"),
    ],
)
def test_what_rounding_decides_may_be_decided_otherwise_and_nothing_else(
    scores: str, found: str, tmp_path: Path
) -> None:
    # Of some rows both scores are the same but for the order in which they are summed.
    making = "(lambda x: torch.cat([(x[:20] + x[:20].flip(1)) / 2, x[20:]]))(torch.randn(4096, 256))"
    reference = make_reference(tmp_path / "r", DECIDES.format("x @ self.w"), making, init=CODES, special_inputs=False)
    status, message = finding(reference, tmp_path / "c", DECIDES.format(scores), init=CODES)
    assert status == found, message
    assert next(reference.module.buffers()).device.type == "cpu"
    if found == "OK":
        verifier = verify(reference, tmp_path / "d", DECIDES.format(scores), init=CODES)
        assert any("rounding decides" in note for note in verifier.notes)
        assert verifier.figures.max_rel < 1e-5


KINK = """h = {}
other = (x.flip(1) @ self.w.flip(0)).detach()
return h + F.pad(torch.relu(h - other)[:2], (0, 0, 0, max(0, len(h) - 2))){}
"""
PRODUCT = "x @ self.w"


@pytest.mark.parametrize("held", ["nn.Parameter", "nn.Buffer"])
@pytest.mark.parametrize(
    ("product", "more", "found"),
    [
        ("(x.double() @ self.w.double()).float()", "", "OK"),
        ("x[:, :100] @ self.w[:100] + x[:, 100:] @ self.w[100:]", "", "OK"),
        (PRODUCT, " + (h - h.detach())", "WRONG_RESULT"),
        ("torch.cat([x[:500].detach() @ self.w, x[500:] @ self.w])", "", "WRONG_RESULT"),
    ],
)
def test_a_gradient_that_rounding_moves_is_held_to_how_far_and_no_farther(
    product: str, more: str, found: str, held: str, tmp_path: Path
) -> None:
    # What `relu` lets through is decided by rounding: each element is zero but for that.
    init = f"self.w = {held}(torch.randn(256, 64))"
    reference = make_reference(
        tmp_path / "r", KINK.format(PRODUCT, ""), "torch.randn(2048, 256)", init=init, mode="training", drawn=1
    )
    status, message = finding(reference, tmp_path / "c", KINK.format(product, more), init=init)
    assert status == found, message
    assert found == "OK" or "gradient" in message


def test_inputs_that_the_reference_changes_must_be_changed_alike_in_every_case(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", "x.add_(1)\nreturn x * 2", "torch.randn(4, 8)")
    assert reference.changes_inputs
    assert finding(reference, tmp_path / "c", "x += 1\nreturn x + x") == ("OK", "")
    assert finding(reference, tmp_path / "c", "return (x + 1) * 2")[0] == "MUTATED_INPUT"
    body = "if x.shape[0] != 3: x.add_(1)\nelse: x = x + 1\nreturn x * 2"
    assert_refused(reference, tmp_path / "c", body, "a batch of 3 instead of 4", status="MUTATED_INPUT")


@pytest.mark.parametrize(
    ("body", "inputs", "words"),
    [
        ("return x - x.mean(1, keepdim=True)", "torch.randn(16, 1)", "any constant would pass"),
        ("return torch.ones_like(x)", "torch.randn(16, 4)", "any constant would pass"),
        ("return x.softmax(1).sum(1)", "torch.randn(16, 4)", "any constant would pass"),
        ("return x.shape[0] > 3, torch.zeros(3)", "torch.randn(16, 4)", "any constant would pass"),
        ("return F.dropout(x, 0.5, True)", "torch.randn(16, 64)", "draws random numbers"),
        ("return x + torch.rand(16, 64)", "torch.randn(16, 64)", "draws random numbers"),
        ("return x * float('nan')", "torch.randn(16, 4)", "no finite number"),
        ("return torch.ones(3)", "2", "takes no tensor"),
    ],
)
def test_a_degenerate_problem_is_refused(tmp_path: Path, body: str, inputs: str, words: str) -> None:
    with pytest.raises(Bad) as caught:
        make_reference(tmp_path, body, inputs)
    assert words in caught.value.message
    assert caught.value.cure
    assert caught.value.line


@pytest.mark.parametrize("left", ["float('nan')", "3e37"])
def test_a_weight_that_nobody_filled_is_named(left: str, tmp_path: Path) -> None:
    init = f"self.mix = nn.Parameter(torch.full((4,), {left}))"
    with pytest.raises(Bad, match=r"mix holds (nan|3\.0e\+37), as memory does that nobody has filled") as caught:
        make_reference(
            tmp_path, "return (x * self.mix).exp() * self.mix * 10 - self.mix", "torch.ones(16, 4)", init=init
        )
    assert caught.value.cure == "Fill mix in the constructor: torch.empty leaves what was there."


def test_inputs_that_never_change_are_varied_by_the_judge(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", "return x * 2", "torch.arange(12.).reshape(3, 4)", special_inputs=False)
    assert any("in another order" in case.words for case in reference.cases)
    replay = "if self.kept is None: self.kept = x * 2\nreturn self.kept.clone()"
    assert_refused(reference, tmp_path / "c", replay, "in another order", init="self.kept = None\n")
    assert finding(reference, tmp_path / "c", "return x + x") == ("OK", "")


def test_an_output_that_hardly_moves_between_seeds_is_checked_with_other_inputs(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", "return x.mean()", "torch.rand(8, 8) * 1e-6 + 1", special_inputs=False)
    status, _ = finding(reference, tmp_path / "c", "return x.sum() * 0 + 1.0")
    assert status == "WRONG_RESULT"
    assert finding(reference, tmp_path / "c", "return x.sum() / 64") == ("OK", "")


def test_what_the_runner_reports_is_plain_data(scaled: Reference, tmp_path: Path) -> None:
    from stark_lsp.judge.correctness import forward

    module = torch.nn.ReLU()
    request = {
        "inputs": scaled.cases[0].inputs_path,
        "outputs": str(tmp_path / "o"),
        "poison": [64],
        "marks": ["inputs"],
    }
    answer = forward.Forward().run(module, None, mode="eval", device="cpu", **request)
    assert json.loads(json.dumps(answer))["odd"] == []
    assert answer["marks"]["inputs"] == scaled.marks(scaled.cases[0])


def test_an_error_that_the_reference_does_not_have_is_found_out_near_zero_too(tmp_path: Path) -> None:
    body = "return torch.tanh(x) * 32.0"
    reference = make_reference(tmp_path / "large", body, "torch.randn(64, 96)")
    verify(reference, tmp_path, "return torch.tanh(x) * (32.0 * (1 + 9e-6))")
    status, message = finding(reference, tmp_path, "return torch.tanh(x) * 32.0 + 2e-4")
    assert status == "WRONG_RESULT"
    # On a busy machine there may have been no time for float64, by which that is said.
    assert "compute more exactly" in message or "with all inputs zero" in message


PACKED = "nn.utils.rnn.pack_padded_sequence(torch.randn(4, 10, 6), torch.tensor([7, 10, 2, 5]), True, False)"


def test_packed_sequences_are_handed_over_and_compared(tmp_path: Path) -> None:
    init, body = "self.rnn = nn.GRU(6, 6, batch_first=True)", "return self.rnn(x)[0]"
    reference = make_reference(tmp_path / "r", body, PACKED, init=init, gradients=True)
    assert reference.backward is not None
    assert finding(reference, tmp_path / "c", body, init=init) == ("OK", "")
    body = body + ".data"
    assert_refused(
        reference, tmp_path / "d", body, "where the reference gives a packed of 4", init=init, status="WRONG_SHAPE"
    )


def test_lazy_layers_are_refused_by_name_with_what_to_do(tmp_path: Path) -> None:
    init = "self.fc = nn.LazyLinear(4)\nself.norm = nn.LazyBatchNorm1d()"
    with pytest.raises(Bad, match="The weights of fc, norm in Model have no shape before a first call") as caught:
        make_reference(tmp_path, "return self.norm(self.fc(x))", "torch.randn(8, 6)", init=init)
    assert "nn.Linear in place of nn.LazyLinear" in caught.value.cure


SLOPE = "h = 1e-8\nreturn (torch.sin(x + h) - torch.sin(x)) / h"
SAME_SLOPE = "h = 1e-8\nreturn torch.sin(x + h) * (1.0 / h) - torch.sin(x) * (1.0 / h)"


@pytest.mark.parametrize(
    ("body", "other", "status"),
    [
        ("return torch.tanh(x) * 2", "return (x.float().tanh() * 2).double()", "WRONG_RESULT"),
        ("return F.relu(x) * 0.37", "return (F.relu(x.float()) * 0.37).double()", "WRONG_RESULT"),
        ("return x.sum(1)", "return x.flip(1).cumsum(1)[:, -1].clone()", "OK"),
        ("return (x.float() * 3).tanh().double()", "return (x * 3).tanh().float().double()", "OK"),
        (SLOPE, SAME_SLOPE, "OK"),
    ],
    ids=["tanh", "relu", "another order", "a reference in float32", "of bad condition"],
)
def test_float64_is_computed_in_float64(tmp_path: Path, body: str, other: str, status: str) -> None:
    # Values far below the largest, or a float32 is off by more than float64 may be at all.
    inputs = "torch.cat([torch.full((6, 1), 8.0), torch.rand(6, 63) - 0.5], 1).double()"
    reference = make_reference(tmp_path / "r", body, inputs, special_inputs=False)
    found, message = finding(reference, tmp_path / "c", other)
    assert found == status, message
    assert ("a smaller type than float64" in message) == (status != "OK")


def test_where_values_decide_the_shape_special_ones_are_tried_too(tmp_path: Path) -> None:
    body = "mask = x > 0\nreturn x[mask] * 2 + mask.sum().item()"
    reference = make_reference(tmp_path / "r", body, "torch.randn(16, 24)", special_inputs=True)
    assert finding(reference, tmp_path / "same", body) == ("OK", "")
    assert finding(reference, tmp_path / "wrong", body.replace(">", ">="))[0] == "WRONG_SHAPE"
