"""Results in which something is chosen, cancels or is complex: honest kernels pass, wrong ones do not.

Among equal values, and of NaN that becomes a whole number, each choice is right; a sum that nearly cancels is off by
more of itself than another one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from verify_cases import finding, make_reference

ARGMAX_TWICE = """i1 = s.argmax(-1, keepdim=True)
i2 = s.scatter(-1, i1, float('-inf')).argmax(-1, keepdim=True)
i = torch.cat([i1, i2], -1)
"""
ROUTER = "self.gate = nn.Linear(32, 16, bias=False)"
EXPERTS = f"""{ROUTER}
self.w = nn.Parameter(torch.randn(16, 32, 8) / 4)
self.b = nn.Parameter(torch.randn(16, 8))"""
MIX = """y = torch.einsum('bi,eio->beo', x, self.w) + self.b
return (y.gather(1, i[..., None].expand(-1, -1, 8)) * p.softmax(-1)[..., None]).sum(1)"""
CLAMPED = "torch.fmin(torch.fmax(torch.round(x * 30.0), torch.tensor(-128.0)), torch.tensor(127.0))"
EXPANDED = "(x * x).sum(-1, keepdim=True) - 2 * x @ self.c.t() + (self.c * self.c).sum(-1)"
CODES = "self.c = nn.Parameter(torch.randn(32, 8))"


@pytest.mark.parametrize(
    ("init", "inputs", "original", "candidate"),
    [
        pytest.param(
            "",
            "torch.randn(32, 64)",
            "return torch.clamp(torch.round(x * 30.0), -128, 127).to(torch.int8)",
            f"return {CLAMPED}.to(torch.int8)",
            id="whole numbers of NaN",
        ),
        pytest.param(
            "",
            "torch.rand(64, 16)",
            "return (x * 10).long().clamp(0, 9)",
            "return (x * 10).clamp(0, 9).long()",
            id="bins",
        ),
        pytest.param(
            ROUTER,
            "torch.randn(24, 32)",
            "p, i = self.gate(x).softmax(-1).topk(2, -1)\nreturn p, i",
            f"s = self.gate(x).softmax(-1)\n{ARGMAX_TWICE}return s.gather(-1, i), i",
            id="a router",
        ),
        pytest.param(
            EXPERTS,
            "torch.randn(24, 32)",
            f"p, i = self.gate(x).topk(2, -1)\n{MIX}",
            f"s = self.gate(x)\n{ARGMAX_TWICE}p = s.gather(-1, i)\n{MIX}",
            id="a mixture of experts",
        ),
        pytest.param(
            "",
            "torch.randn(8, 64)",
            "v, i = torch.topk(F.relu(x), 4, -1)\nreturn v, i",
            "v, i = torch.sort(F.relu(x), -1, True)\nreturn v[:, :4].contiguous(), i[:, :4].contiguous()",
            id="topk",
        ),
        pytest.param(
            CODES,
            "torch.randn(64, 8)",
            "return self.c[(x[:, None] - self.c).square().sum(-1).argmin(-1)]",
            f"return self.c[({EXPANDED}).argmin(-1)]",
            id="nearest codes",
        ),
        pytest.param(
            CODES,
            "torch.randn(64, 8)",
            "return torch.cdist(x, self.c)",
            "return (x[:, None] - self.c).square().sum(-1).sqrt()",
            id="distances",
        ),
        pytest.param(
            "",
            "torch.randn(64, 256)",
            "y = F.layer_norm(x, (256,))\nreturn y, {'mean': y.mean().item()}",
            "m = x.mean(-1, keepdim=True)\nv = (x - m).square().mean(-1, keepdim=True)\n"
            "y = (x - m) * torch.rsqrt(v + 1e-5)\nreturn y, {'mean': y.mean().item()}",
            id="a number that is rounding alone",
        ),
    ],
)
def test_an_honest_kernel_may_choose_otherwise(
    tmp_path: Path, init: str, inputs: str, original: str, candidate: str
) -> None:
    reference = make_reference(tmp_path / "r", original, inputs, init=init)
    assert finding(reference, tmp_path / "c", candidate, init=init) == ("OK", "")


def test_nan_among_what_is_ordered_is_still_tried_where_it_shows(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", "return x.max(-1).values", "torch.randn(8, 65)")
    found, message = finding(reference, tmp_path / "c", "return x.nan_to_num(0.0).amax(-1)")
    assert (found, "NaN" in message) == ("WRONG_RESULT", True)


@pytest.mark.parametrize("drawn", [5, 129])
def test_a_sum_that_nearly_cancels_has_the_room_it_needs(tmp_path: Path, drawn: int) -> None:
    inputs = "torch.randn(256, 512), torch.randn(256, 512)"
    options = {"arguments": "x, y", "seeds": 5, "special_inputs": False, "drawn": drawn}
    reference = make_reference(tmp_path / "r", "return (x * y).mean()", inputs, **options)  # type: ignore[arg-type]
    blocks = "p = (x * y).reshape(-1)\nreturn p.view(128, -1).sum(0).sum() / p.numel()"
    assert finding(reference, tmp_path / "c", blocks, arguments="x, y") == ("OK", "")
    halves = "return (x.bfloat16().float() * y).mean()"
    assert finding(reference, tmp_path / "d", halves, arguments="x, y")[0] == "WRONG_RESULT"


SPECTRAL = "self.w = nn.Parameter(torch.randn(8, 8, 17, dtype=torch.cfloat) / 8)"
MODES = "return torch.fft.irfft(torch.einsum('bix,iox->box', torch.fft.rfft(x), {w}), n=32)"


def test_complex_weights_are_moved_and_complex_inputs_made_special(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", MODES.format(w="self.w"), "torch.randn(4, 8, 32)", init=SPECTRAL)
    assert reference.cases[0].own_errors is not None
    assert any("zero" in case.words for case in reference.special)
    kept = "if self.kept is None:\n    self.kept = self.w.detach().clone()\n" + MODES.format(w="self.kept")
    found, _ = finding(reference, tmp_path / "c", kept, init=f"{SPECTRAL}\nself.kept = None")
    assert found == "WRONG_RESULT"

    body = "return x / x.abs().clamp_min(1e-12)"
    reference = make_reference(tmp_path / "s", body, "torch.randn(16, 8, dtype=torch.cfloat)")
    found, message = finding(reference, tmp_path / "d", "return x / x.abs()")
    assert (found, "zero" in message) == ("NOT_FINITE", True)


def test_a_complex_gradient_that_is_rounding_alone_is_none(tmp_path: Path) -> None:
    init, inputs = "self.l = nn.Linear(8, 8, dtype=torch.cfloat)", "torch.randn(16, 8, dtype=torch.cfloat)"
    body = "y = self.l(x)\nreturn y - y.mean(0, keepdim=True)"
    reference = make_reference(tmp_path / "r", body, inputs, init=init, gradients=True)
    other = "return self.l(x - x.mean(0, keepdim=True)) - self.l.bias"
    assert finding(reference, tmp_path / "c", other, init=init) == ("OK", "")


BAG = "self.e = nn.EmbeddingBag(100, 8, mode='sum', sparse=True)\nself.fc = nn.Linear(8, 4)"
NO_GRADIENTS = """
class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i, w, fw, fb):
        ctx.save_for_backward(w, fw, fb)
        return F.linear(F.embedding(i, w).sum(1), fw, fb)

    @staticmethod
    def backward(ctx, g):
        return None, *(torch.zeros_like(one) for one in ctx.saved_tensors)
"""


@pytest.mark.parametrize("mode", ["eval", "training"])
def test_sparse_gradients_are_compared(tmp_path: Path, mode: str) -> None:
    body, options = "return self.fc(self.e(i))", {"init": BAG, "arguments": "i"}
    reference = make_reference(
        tmp_path / "r", body, "torch.randint(0, 100, (16, 5))", mode=mode, gradients=True, **options
    )
    assert not any("backward of the original raised" in note for note in reference.notes)
    assert finding(reference, tmp_path / "c", body, **options) == ("OK", "")
    applied = "return Fn.apply(i, self.e.weight, self.fc.weight, self.fc.bias)"
    found, message = finding(reference, tmp_path / "d", applied, before=NO_GRADIENTS, **options)
    assert (found, "gradient" in message) == ("WRONG_RESULT", True)


KEEPING = """s = self.q(x) @ self.k(x).transpose(-1, -2) / 4.0
self.attention = s.softmax(-1)
return self.attention @ x"""


def test_a_class_that_keeps_what_it_computed_is_checked_as_others_are(tmp_path: Path) -> None:
    """Such a tensor is no leaf, and cannot be copied with its module."""
    init = "self.q = nn.Linear(16, 16)\nself.k = nn.Linear(16, 16)\nself.attention = None"
    reference = make_reference(tmp_path / "r", KEEPING, "torch.randn(3, 16, 16)", init=init, gradients=True)
    assert not any("float64" in note for note in reference.notes)
    body = f"if x.dtype == torch.bfloat16:\n    return torch.zeros_like(x)\n{KEEPING}"
    found, message = finding(reference, tmp_path / "c", body, init=init)
    assert (found, "torch.bfloat16" in message) == ("WRONG_RESULT", True)


def test_what_could_not_be_tried_is_said(tmp_path: Path) -> None:
    body = "assert x.dtype == torch.float32\nreturn torch.tanh(x)"
    reference = make_reference(tmp_path / "r", body, "torch.randn(4, 8)")
    assert reference.cases[0].own_errors is None
    (told,) = (note for note in reference.notes if note.startswith("Not checked with"))
    assert "large values" in told
