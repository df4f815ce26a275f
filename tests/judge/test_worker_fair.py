"""What only special cases find out: wrong candidates that are right on the user's own inputs and weights."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from verify_cases import assert_refused, finding, make_reference, verify

from stark_lsp.judge.inputs import fair
from stark_lsp.judge.inputs.cases import CaseKind
from stark_lsp.judge.reference import examine
from stark_lsp.judge.reference.reference import Reference

CLAMPED = "return F.hardtanh(x * 2.0, -12.0, 12.0)"


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    body = "return torch.softmax(F.softplus(x).masked_fill(mask == 0, -1e9), -1)"
    return make_reference(
        tmp_path_factory.mktemp("r"), body, "torch.randn(16, 64), torch.ones(16, 64)", arguments="x, mask"
    )


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    body = "m = x.mean((1, 2))\nreturn torch.sigmoid(m * 3.0 + (x * x).mean((1, 2)))"
    return make_reference(tmp_path_factory.mktemp("r"), body, "torch.rand(4, 256, 256)")


def small_limit(patch: pytest.MonkeyPatch, nbytes: int = 4096) -> None:
    """Count whatever is beyond a few rows as large, so that tests need no large inputs."""
    patch.setattr(fair, "WHOLE_LIMIT", nbytes)


def test_large_inputs_are_checked_with_a_small_part_of_their_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_limit(monkeypatch)
    reference = make_reference(tmp_path / "r", CLAMPED, "torch.randn(400, 24)")
    base = reference.special[0]
    assert base.words == "with a batch of 49 instead of 400"
    assert base.own_errors is not None
    assert {case.kind for case in reference.special} == set(CaseKind) - {CaseKind.SEEDED, CaseKind.MOVED_WEIGHTS}
    own = [case for case in reference.special if case.kind not in (CaseKind.BATCH, CaseKind.LENGTH)]
    assert {tuple(case.outputs.tensors[0].shape) for case in own} == {(49, 24)}
    assert not reference.notes
    assert_refused(reference, tmp_path / "c", "return x * 2.0", "infinities", status="NOT_FINITE")
    body = "return x.as_strided(x.shape, (24, 1)).mul(2).clamp(-12, 12)"
    assert_refused(reference, tmp_path / "c", body, "not contiguous", status="NOT_FINITE")
    assert finding(reference, tmp_path / "c", "return torch.clamp(x + x, -12, 12)") == ("OK", "")


LESS = "return x.softmax(1) * mask[:, :, None] - x.mean(1, keepdim=True)"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (LESS.replace("x.mean(1, keepdim=True)", "x.sum(1, keepdim=True) / x.shape[1]"), ""),
        (
            LESS.replace("x.mean(1, keepdim=True)", "x.sum(1, keepdim=True) / 24"),
            "with 12 instead of 24 along dimension 1",
        ),
        (f"if x.shape[1] != 24:\n    {LESS}\nreturn x.softmax(1) * mask[:, :, None] - x.sum(1, keepdim=True) / 24", ""),
        (f"x = x if x.shape[2] == 10 else 2 * x\n{LESS}", "with 5 instead of 10 along dimension 2"),
    ],
    ids=["right", "a length built in", "behind a condition", "a width built in"],
)
def test_a_size_that_is_built_in_is_found(tmp_path: Path, body: str, words: str) -> None:
    inputs = "torch.randn(16, 24, 10), (torch.rand(16, 24) > 0.5).float()"
    reference = make_reference(tmp_path / "r", LESS, inputs, arguments="x, mask")
    assert [case.words for case in reference.special if case.kind is CaseKind.LENGTH] == [
        "with 12 instead of 24 along dimension 1 of its inputs",
        "with 5 instead of 10 along dimension 2 of its inputs",
    ]
    status, message = finding(reference, tmp_path / "c", body, arguments="x, mask")
    assert status == "OK" if not words else status != "OK", message
    assert words in message


BOUND = """\
class Bound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.tanh(x * weight).mean(1)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        slope = (1 - torch.tanh(x * weight) ** 2) * gradient[:, None] / {length}
        return slope * weight, (slope * x).sum((0, 1))
"""


@pytest.mark.parametrize(("length", "status"), [("x.shape[1]", "OK"), ("24", "WRONG_RESULT")])
def test_a_length_that_is_built_into_backward_is_found(tmp_path: Path, length: str, status: str) -> None:
    init, inputs = "self.weight = nn.Parameter(torch.rand(10) + 0.5)", "torch.randn(16, 24, 10)"
    body = "return torch.tanh(x * self.weight).mean(1)"
    reference = make_reference(tmp_path / "r", body, inputs, init=init, mode="training")
    body, before = "return Bound.apply(x, self.weight)", BOUND.format(length=length)
    found, message = finding(reference, tmp_path / "c", body, init=init, before=before)
    assert found == status, message
    assert ("with 12 instead of 24" in message) is (status != "OK")


def test_what_only_one_length_fits_has_no_other(tmp_path: Path) -> None:
    init = "self.lin = nn.Linear(24, 24)\nself.places = nn.Parameter(torch.randn(8, 24))"
    reference = make_reference(tmp_path / "r", "return self.lin(x) + self.places", "torch.randn(4, 8, 24)", init=init)
    assert not [case for case in reference.special if case.kind is CaseKind.LENGTH]


def test_lengths_of_more_rows_than_there_are_never_reach_the_device(tmp_path: Path) -> None:
    body = """
        beyond = int(lengths.sum()) > x.shape[0]
        if beyond and x.dtype == torch.float64:
            raise IndexError("so many rows are not there")
        BEYOND.append(x.shape[0]) if beyond else None
        return x * 2.0 + lengths.sum()
    """
    inputs = "torch.randn(64, 4), torch.full((8,), 8)"
    reference = make_reference(
        tmp_path / "r", textwrap.dedent(body), inputs, arguments="x, lengths", before="BEYOND = []"
    )
    assert type(reference.module).forward.__globals__["BEYOND"] == []
    words = [case.words for case in reference.special if case.kind is CaseKind.BATCH]
    assert words == ["with a batch of 1 instead of 64", "with a batch of 65 instead of 64"]


@pytest.mark.parametrize("reason", ["slow", "many operations"])
def test_so_are_slow_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    if reason == "slow":
        monkeypatch.setattr(fair, "WHOLE_SECONDS", 0.0)
    else:
        monkeypatch.setattr(fair, "SCREEN_FLOPS", 30 * 24 * 24)
    reference = make_reference(tmp_path / "r", "return (x @ x.t()).sum(1)", "torch.randn(40, 24)")
    assert reference.special[0].words == "with a batch of 5 instead of 40"
    assert CaseKind.LARGE in {case.kind for case in reference.special}


def test_a_part_of_the_batch_is_also_checked_with_other_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_limit(monkeypatch)
    # One seed, as where there is no memory for more: no case of the user's own with other weights.
    init = "self.norm = nn.LayerNorm(24)\n"
    reference = make_reference(tmp_path / "r", "return self.norm(x)", "torch.randn(400, 24)", init=init, seeds=1)
    moved = [case for case in reference.special if case.trained]
    assert [case.kind for case in moved] == [CaseKind.BATCH, CaseKind.EDGE, CaseKind.LARGE]
    body = "return F.layer_norm(x, (24,))"
    assert_refused(reference, tmp_path / "c", body, "batch of 49 instead of 400, and with other weights", init=init)
    body = "c = x - x.mean(1, keepdim=True)\nr = torch.rsqrt((c * c).mean(1, keepdim=True) + 1e-5)\n"
    body += "return torch.addcmul(self.norm.bias, c * r, self.norm.weight)"
    assert finding(reference, tmp_path / "c", body, init=init) == ("OK", "")


def test_where_the_batch_cannot_be_smaller_a_note_says_what_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_limit(monkeypatch)
    monkeypatch.setattr(fair, "BYTES", 2 * 100_000)
    reference = make_reference(tmp_path / "r", "return x * 2.0", "torch.randn(1, 8000)")
    assert len(reference.special) == 3
    (note,) = reference.notes
    assert "not checked with NaN, infinities and zeros, large values, changed values, other lengths." in note


def test_a_part_that_the_reference_does_not_bear_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_limit(monkeypatch)
    reference = make_reference(tmp_path / "r", "return x.reshape(400, 24) * 2.0", "torch.randn(400, 24)")
    assert {tuple(case.outputs.tensors[0].shape) for case in reference.special} == {(400, 24)}
    assert CaseKind.LARGE in {case.kind for case in reference.special}


def test_a_mask_that_is_the_same_for_every_seed_gets_holes(masked: Reference, tmp_path: Path) -> None:
    words = "with only input number 2 changed: another pattern of zeros and ones"
    assert words in [case.words for case in masked.special]
    # Right for all masks of ones, and for whatever is not a number.
    body = "m = torch.where((mask == 0).float().mean() > 0.1, 1, mask)\n"
    body += "return torch.softmax(F.softplus(x).masked_fill(m == 0, -1e9), -1)"
    status, message = finding(masked, tmp_path, body, arguments="x, mask")
    assert (status, words in message) == ("WRONG_RESULT", True), message
    body = "s = torch.where(mask != 0, torch.logaddexp(x, torch.zeros(())), -1e9)\n"
    body += "e = torch.exp(s - s.amax(-1, keepdim=True))\nreturn e / e.sum(-1, keepdim=True)"
    assert finding(masked, tmp_path, body, arguments="x, mask") == ("OK", "")


@pytest.mark.parametrize(
    ("body", "inputs", "wrong", "honest"),
    [
        ("x.softmax(-1) * y", "torch.randn(8, 32), 1.0", "x.softmax(-1)", "y * torch.exp(x.log_softmax(-1))"),
        ("x * y", "torch.randn(8, 32), torch.full((32,), 0.5)", "x * y.mean().sign() * 0.5", "y * x"),
        ("x[y]", "torch.randn(8, 32), torch.arange(8)", "x + y.sum() * 0", "x.index_select(0, y)"),
        ("x + y.tril()", "torch.randn(4, 8, 8), torch.ones(8, 8).tril()", "x + torch.ones(8, 8).tril() + y.max() * 0 ",
         "torch.where(torch.ones_like(y).tril() > 0, x + y, x)"),
        ("x * y.unsqueeze(1)", "torch.randn(8, 32), torch.full((8,), 6)", "x * 6 + y.max() * 0",
         "torch.einsum('bi,b->bi', x, y.float())"),
    ],
)  # fmt: skip
def test_each_input_that_never_changes_is_changed_alone(
    tmp_path: Path, body: str, inputs: str, wrong: str, honest: str
) -> None:
    reference = make_reference(tmp_path / "r", "return " + body, inputs, arguments="x, y")
    status, message = finding(reference, tmp_path / "c", "return " + wrong, arguments="x, y")
    assert status in ("WRONG_RESULT", "NOT_FINITE"), message
    assert any("with only input number 2 changed" in case.words for case in reference.special)
    assert finding(reference, tmp_path / "c", "return " + honest, arguments="x, y") == ("OK", "")


def test_a_fixed_input_of_zeros_is_not_left_at_zero(tmp_path: Path) -> None:
    inputs = "torch.randn(8, 32), torch.zeros(8, 32)"
    reference = make_reference(tmp_path / "r", "return torch.tanh(x + h)", inputs, arguments="x, h")
    wrong = "return torch.where((h == 1).any(), torch.tanh(x), torch.tanh(x + h))"
    assert_refused(reference, tmp_path / "c", wrong, "another pattern of zeros and ones", arguments="x, h")


def test_inputs_of_one_sign_get_the_other(tmp_path: Path) -> None:
    init = "self.w = nn.Linear(32, 32)\n"
    body = "return self.w(torch.relu(x).abs().sqrt())"
    reference = make_reference(tmp_path / "r", body, "torch.rand(16, 32)", init=init)
    body = "return self.w(x.sqrt())"
    assert_refused(
        reference, tmp_path / "c", body, "with negative values among the inputs", init=init, status="NOT_FINITE"
    )
    assert finding(reference, tmp_path / "c", "return self.w(x.clamp_min(0) ** 0.5)", init=init) == ("OK", "")


def test_signs_are_flipped_where_taking_the_mean_away_is_no_good(tmp_path: Path) -> None:
    # Undefined from -1 to 1, and on both sides of that there is something to see.
    body = "return torch.sqrt(x * x - 1) * x.sign()"
    reference = make_reference(tmp_path / "r", body, "torch.rand(16, 32) + 1")
    wrong = "return torch.sqrt(x * x - 1) * torch.where(x.abs() < 9, 1, x.sign())"
    assert_refused(reference, tmp_path / "c", wrong, "with the signs flipped")
    assert finding(reference, tmp_path / "c", "return torch.copysign(torch.sqrt((x + 1) * (x - 1)), x)") == ("OK", "")


def test_signs_stay_where_the_reference_is_not_defined_below_zero(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", "return torch.log(x)", "torch.rand(16, 32) + 0.5")
    assert not any("negative" in case.words or "signs" in case.words for case in reference.special)
    reference = make_reference(
        tmp_path / "s", "return torch.log(p) * q", "torch.rand(16, 32) + 0.5, torch.rand(16, 32)", arguments="p, q"
    )
    # What is defined for one of the inputs is tried with this one alone.
    status, _ = finding(reference, tmp_path / "c", "return torch.log(p) * q.abs()", arguments="p, q")
    assert status == "WRONG_RESULT"


@pytest.mark.parametrize(
    "cut",
    ["(w & -65536) | 32768", "(w + 32767 + ((w >> 16) & 1)) & -65536", "(w & -8192) | 4096", "(w + 4096) & -8192"],
)
def test_a_mean_does_not_hide_lower_precision(averaged: Reference, tmp_path: Path, cut: str) -> None:
    body = f"w = x.contiguous().view(torch.int32)\nw = {cut}\n"
    body += "h = torch.where(x.isfinite() & (x != 0), w.view(torch.float32), x)\nm = h.mean((1, 2))\n"
    body += "return torch.sigmoid(m * 3.0 + (h * h).mean((1, 2)))"
    assert_refused(averaged, tmp_path, body, "last bits are all alike")


@pytest.mark.parametrize(
    "body",
    [
        "f = x.flatten(1)\nreturn torch.sigmoid(f.sum(1) / n * 3 + torch.linalg.vector_norm(f, dim=1)**2 / n)",
        "m = torch.stack([x[:, :, i] for i in range(x.shape[2])]).sum(0).sum(1) / n\n"
        "return torch.sigmoid(m * 3 + torch.einsum('bij,bij->b', x, x) / n)",
        "s = torch.cumsum(x.flatten(1), 1)[:, -1] / n\nreturn torch.sigmoid(s * 3 + (x * x).mean(2).mean(1))",
    ],
)
def test_means_in_other_orders_are_honest(averaged: Reference, tmp_path: Path, body: str) -> None:
    assert finding(averaged, tmp_path, f"n = x[0].numel()\n{body}") == ("OK", "")


def test_equal_last_bits_are_not_tried_where_places_are_sought(tmp_path: Path) -> None:
    for name, body in (("a", "return x.argmax(1)"), ("b", "return x.sort(1).values, x[0].sort().indices.float()")):
        reference = make_reference(tmp_path / name, body, "torch.randn(16, 32)")
        assert not any("last bits" in case.words for case in reference.special)


def test_a_weight_that_only_large_values_show_is_found_out(tmp_path: Path) -> None:
    # Normalization takes scale and shift of each row away again, unless the bound comes between.
    init = "self.bn = nn.BatchNorm2d(4)\nself.ln = nn.LayerNorm(32)\n"
    reference = make_reference(
        tmp_path / "r", "return self.ln(F.hardtanh(self.bn(x), -6.0, 6.0))", "torch.randn(8, 4, 8, 32)", init=init
    )
    moved = [case for case in reference.special if case.trained]
    assert [case.kind for case in moved] == [CaseKind.EDGE, CaseKind.LARGE]
    for wrong in (
        "x * (1 + 1e-5) ** -0.5",
        "x * (self.bn.weight * (self.bn.running_var + 1e-5).rsqrt())[:, None, None]",
    ):
        body = f"return self.ln(F.hardtanh({wrong}, -6.0, 6.0))"
        assert_refused(reference, tmp_path / "c", body, "and with other weights than the constructor gives", init=init)
    body = "s = self.bn.weight * torch.rsqrt(self.bn.running_var + self.bn.eps)\n"
    body += "t = self.bn.bias - self.bn.running_mean * s\n"
    body += "return self.ln(torch.addcmul(t[:, None, None], x, s[:, None, None]).clamp(-6, 6))"
    assert finding(reference, tmp_path / "c", body, init=init) == ("OK", "")


def test_the_number_of_special_cases_is_bounded(tmp_path: Path) -> None:
    init = "self.w = nn.Parameter(torch.randn(32))\n"
    inputs = "torch.rand(16, 32), torch.ones(16, 32), 2.0, torch.arange(16), torch.ones(32), 0.5"
    body = "return (x * m * a)[i] * self.w * g + b"
    reference = make_reference(tmp_path, body, inputs, arguments="x, m, a, i, g, b", init=init)
    plain = [case for case in reference.special if not case.trained]
    assert len(plain) == fair.MOST - 1, "only one of its dimensions could be shorter, and does not fit the weight"
    assert len(reference.special) <= fair.MOST + 3
    alone = [case.words for case in plain if "only" in case.words]
    assert alone == [
        "with only input number 2 changed: another pattern of zeros and ones",
        "with only input number 3 changed: times 0.75",
        "with only input number 4 and input number 5 and input number 6 changed: in another order, "
        "another pattern of zeros and ones, times 0.75",
    ]


def test_the_same_cases_are_made_each_time_however_busy_the_machine_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def words(name: str) -> list[str]:
        body, inputs = "return x * m + x.mean(1, keepdim=True)", "torch.rand(16, 32), torch.ones(16, 32)"
        return [case.words for case in make_reference(tmp_path / name, body, inputs, arguments="x, m").special]

    usual = words("a")
    # Each look at the clock finds an hour gone that this process did not work.
    hours = iter(range(0, 10**9, 3600))
    monkeypatch.setattr("stark_lsp.judge.reference.examine.time.monotonic", lambda: float(next(hours)))
    assert words("b") == usual
    assert examine.FLOAT64_SECONDS < 3600


def test_of_a_large_reference_a_part_is_run_in_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "FLOAT64_LIMIT", 1000)
    body = "return x.exp().sum(-1, keepdim=True), x.sum(-1).exp()"
    reference = make_reference(tmp_path / "r", body, "torch.rand(64, 32)", special_inputs=False)
    first = reference.cases[0]
    assert first.exact is not None
    assert [tensor.shape for tensor in first.exact] == [(7, 1), (7,)]
    assert first.own_errors is not None
    assert all(0.0 < error < 1e-5 for error in first.own_errors)
    verifier = verify(reference, tmp_path / "c", body)
    assert 0.0 < (verifier.figures.float64_max_rel or 0.0) < 1e-5


@pytest.mark.parametrize(
    "body",
    [
        "return x - x.mean(0)",
        "return x.mean()",
        "return x.cumsum(0).t()",
        "return x.cumsum(0)",
        "return x.flip(0).cumsum(0).flip(0)",
    ],
)
def test_only_where_samples_do_not_depend_on_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setattr(examine, "FLOAT64_LIMIT", 1000)
    reference = make_reference(tmp_path / "r", body, "torch.rand(64, 32)", special_inputs=False)
    assert reference.cases[0].own_errors is None
    assert any("No float64 comparison" in note for note in reference.notes)


PROJECTED = ("self.project = nn.Linear(512, 40)", "torch.randn(64, 512)")
SHIFTED = "e = torch.exp(y - y.max(-1, keepdim=True)[0])"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (f"{SHIFTED}\nreturn e / e.sum(-1, keepdim=True)", "OK"),
        ("e = torch.exp(y)\nreturn e / e.sum(-1, keepdim=True)", "NOT_FINITE"),
    ],
)
def test_where_large_inputs_are_ill_conditioned_the_result_has_to_be_finite(
    tmp_path: Path, body: str, status: str
) -> None:
    # Behind a product float32 is off by more than a softmax of large values bears: by how much, depends on the CPU, so
    # that bits are lost on purpose.
    init, inputs = PROJECTED
    lossy = "y = self.project(x) / 4\ns = 16.0 * y.detach().abs().amax()\ny = (y + s) - s"
    body, original = (f"{lossy}\n{text}" for text in (body, "return y.softmax(-1)"))
    reference = make_reference(tmp_path / "r", original, inputs, init=init)
    large = [case for case in reference.special if case.kind is CaseKind.LARGE and not case.trained]
    assert [case.finite_alone for case in large] == [True, False]
    found, message = finding(reference, tmp_path / "c", body, init=init)
    assert found == status
    assert ("1000 times as large" in message) == (status != "OK")


def test_what_is_not_finite_there_either_is_no_case(tmp_path: Path) -> None:
    init, inputs = PROJECTED
    body = "y = self.project(x)\nreturn torch.exp(y) * torch.cos(y)"
    reference = make_reference(tmp_path / "r", body, inputs, init=init)
    assert not any(case.words.startswith("with inputs 1000 times") for case in reference.special)


def words_of(reference: Reference) -> set[str]:
    return {case.words for case in reference.special}


def test_what_rounding_decides_of_zeros_is_held_against_nobody(tmp_path: Path) -> None:
    """A log of power over its deviation: of silence all is one constant, less its mean, over next to nothing."""
    body = """p = torch.log(x.abs().clamp_min(1e-10))
m = p.mean(-1, keepdim=True)
v = (p - m).pow(2).mean(-1, keepdim=True)
return (p - m) / torch.sqrt(v + 1e-5)"""
    reference = make_reference(tmp_path / "r", body, "torch.randn(16, 251)")
    assert "with all inputs zero" not in words_of(reference)
    other = body.replace("p.mean(-1, keepdim=True)", "p.cumsum(-1)[:, -1:] / p.shape[-1]", 1)
    assert finding(reference, tmp_path / "c", other) == ("OK", "")


@pytest.mark.parametrize(
    "body",
    [
        "return torch.tanh(x) + 3.0",
        "return F.layer_norm(x, (24,))",
        "return torch.softmax(x, -1)",
        "return x / x.norm()",
    ],
)
def test_zeros_are_tried_where_they_are_told_apart(body: str, tmp_path: Path) -> None:
    assert "with all inputs zero" in words_of(make_reference(tmp_path / "r", body, "torch.randn(16, 24)"))
