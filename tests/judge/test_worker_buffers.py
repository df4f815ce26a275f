"""In mode eval a candidate leaves buffers as the original does, if calls change them; what is made once is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from verify_cases import assert_refused, finding, make_reference

from stark_lsp.judge.correctness.state import State

AMAX = 'self.register_buffer("amax", torch.zeros(()))\n'
OBSERVED = "self.amax.copy_(torch.maximum(self.amax, x.abs().max()))\nreturn torch.relu(x)"
CACHE = 'self.register_buffer("cache", torch.zeros(4, 24), persistent=False)\n'
CACHED = "self.cache[1] = x[0]\nreturn x + self.cache.sum(0)"
COUNT = 'self.register_buffer("count", torch.zeros((), dtype=torch.long))\n'
TABLE = 'self.register_buffer("table", torch.zeros(24), persistent=False)\nself.ready = False\n'
MADE = """
if not self.ready:
    self.table.copy_(torch.arange(24.0))
    self.ready = True
return x * self.table
"""


MEAN = 'self.register_buffer("mean", torch.zeros(24))\n'
MOVED = "self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)\nreturn x - self.mean"
GROWING = 'self.register_buffer("keys", torch.zeros(0, 24), persistent=False)\n'
GROWN = "self.keys = torch.cat([self.keys, x])\nreturn x @ self.keys.T"
HIDDEN = 'self.w = nn.Parameter(torch.full((24, 24), 0.1))\nself.register_buffer("h", torch.zeros(8, 24))\n'
NEXT = "self.h = torch.tanh((x + self.h) @ self.w)\nreturn self.h * 2"
LAZY = 'self.register_buffer("seen", None)\n'
SEEN = """
m = x.detach().abs().amax(0)
self.seen = m if self.seen is None else torch.maximum(self.seen, m)
return x / (1 + self.seen)
"""
FLAG = 'self.register_buffer("ready", torch.tensor(False))\n' + MEAN
FLAGGED = """
m = x.detach().mean(0)
self.mean = torch.where(self.ready, 0.9 * self.mean + 0.1 * m, m)
self.ready.fill_(True)
return x - self.mean
"""
PREVIOUS = 'self.register_buffer("prev", torch.zeros(8, 24))\n'


@pytest.mark.parametrize(
    ("init", "original", "wrong", "named"),
    [
        (AMAX, OBSERVED, "return torch.relu(x)", "buffer amax after a call is 0"),
        (AMAX, OBSERVED, "self.amax.copy_(x.mean())\nreturn torch.relu(x)", "buffer amax after a call"),
        (CACHE, CACHED, "return x + x[0]", "buffer cache after a call"),
        (MEAN, MOVED, "return x - 0.1 * x.mean(0)", "buffer mean after a call"),
        (GROWING, GROWN, "return x @ x.T", "buffer keys after a call"),
        (COUNT, "self.count += 1\nreturn torch.relu(x)", "return torch.relu(x)", "buffer count after a call"),
        (PREVIOUS, "y = x - self.prev\nself.prev = x\nreturn y", "return x * 1", "buffer prev after a call"),
        (HIDDEN, NEXT, "return 2 * torch.tanh(x @ self.w)", "buffer h after a call"),
        (LAZY, SEEN, "return x / (1 + x.detach().abs().amax(0))", "no buffer seen"),
        (FLAG, FLAGGED, "self.ready.fill_(True)\nreturn x - x.detach().mean(0)", "buffer mean after a call"),
    ],
    ids=[
        "observer",
        "another value",
        "cache",
        "running mean",
        "cache that grows",
        "counter",
        "input kept",
        "hidden state",
        "made when called",
        "flag beside it",
    ],
)
def test_what_a_call_leaves_is_compared(init: str, original: str, wrong: str, named: str, tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", original, "torch.randn(8, 24)", init=init, gradients=True)
    assert not any("not compared" in note for note in reference.notes)
    assert finding(reference, tmp_path / "same", original, init=init) == ("OK", "")
    assert_refused(reference, tmp_path / "wrong", wrong, named, init=init)


def test_each_call_begins_with_the_buffers_of_the_first(tmp_path: Path) -> None:
    # Special inputs hold NaN, which would stay.
    body = "self.amax = torch.maximum(self.amax, x.detach().abs().max())\nreturn x / (1 + self.amax)"
    inputs = "torch.randn(8, 24)"
    reference = make_reference(tmp_path / "r", body, inputs, init=AMAX, special_inputs=True, gradients=True)
    assert reference.buffers is not None
    better = "torch.maximum(self.amax, x.detach().abs().max(), out=self.amax)\nreturn x / (1 + self.amax)"
    assert finding(reference, tmp_path / "same", body, init=AMAX) == ("OK", "")
    assert finding(reference, tmp_path / "c", better, init=AMAX) == ("OK", "")
    wrong = "return x / (1 + x.detach().abs().max())"
    assert "amax" in finding(reference, tmp_path / "w", wrong, init=AMAX)[1]


def test_a_buffer_that_is_not_there_is_named(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", CACHED, "torch.randn(8, 24)", init=CACHE)
    status, message = finding(reference, tmp_path / "c", "return x + x[0]", init="self.other = 1\n")
    assert (status, message) == ("WRONG_RESULT", "It has no buffer cache, which a call of the original changes.")


def test_what_is_made_once_is_a_candidates_own_affair(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", MADE, "torch.randn(8, 24)", init=TABLE)
    assert reference.buffers is None
    assert finding(reference, tmp_path / "c", "return x * torch.arange(24.0)", init="self.other = 1\n") == ("OK", "")


def test_where_nothing_changes_nothing_is_asked(tmp_path: Path) -> None:
    init = 'self.norm = nn.BatchNorm1d(24)\nself.register_buffer("bias", torch.ones(24))\n'
    reference = make_reference(tmp_path, "return self.norm(x) + self.bias", "torch.randn(8, 24)", init=init)
    assert reference.buffers is None


def test_a_buffer_of_another_name_is_looked_at(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", CACHED, "torch.randn(8, 24)", init=CACHE)
    init, body = CACHE.replace('"cache"', '"kept"'), CACHED.replace("self.cache", "self.kept")
    assert finding(reference, tmp_path / "c", body, init=init) == ("OK", "")
    assert finding(reference, tmp_path / "w", "return x + x[0]", init=init)[0] == "WRONG_RESULT"


def test_a_candidate_may_have_from_the_start_what_the_original_makes_when_called(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", SEEN, "torch.randn(8, 24)", init=LAZY)
    init = 'self.register_buffer("seen", torch.zeros(24), persistent=False)\n'
    body = "seen = self.seen if x.shape[1] == 24 else 0 * x[0]\n"
    body += "self.seen = torch.maximum(seen, x.detach().abs().amax(0))\nreturn x / (1 + self.seen)"
    assert finding(reference, tmp_path / "c", body, init=init) == ("OK", "")


def test_tables_made_once_stay_made_beside_what_changes(tmp_path: Path) -> None:
    init = COUNT + 'self.register_buffer("table", None)\nself.ready = False\n'
    body = """
    if not self.ready:
        self.table, self.ready = torch.arange(24.0), True
    self.count += 1
    return x * self.table
    """
    reference = make_reference(tmp_path / "r", body, "torch.randn(8, 24)", init=init)
    assert reference.buffers is not None
    made = COUNT + 'self.register_buffer("table", torch.arange(24.0), persistent=False)\n'
    assert finding(reference, tmp_path / "c", "self.count += 1\nreturn x * self.table", init=made) == ("OK", "")


def test_gradients_are_compared_where_buffers_have_some(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", NEXT, "torch.randn(8, 24)", init=HIDDEN, gradients=True)
    assert reference.backward is not None
    wrong = """
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, h, w):
            return torch.tanh((x + h) @ w)

        @staticmethod
        def backward(ctx, flow):
            return flow.detach() * 3, -flow, torch.ones(24, 24)
    """
    body = "self.h = Wrong.apply(x, self.h, self.w)\nreturn self.h * 2"
    status, message = finding(reference, tmp_path / "c", body, init=HIDDEN, before=wrong)
    assert (status, "gradient" in message) == ("WRONG_RESULT", True)


def test_buffers_that_cannot_be_written_are_no_fault(tmp_path: Path) -> None:
    init = COUNT + (
        'self.register_buffer("scale", torch.full((1,), 0.5).expand(24), persistent=False)\n'
        'self.register_buffer("adj", torch.eye(24).to_sparse(), persistent=False)\n'
    )
    body = "self.count += 1\nreturn torch.sparse.mm(self.adj, x.T).T * self.scale"
    reference = make_reference(tmp_path / "r", body, "torch.randn(8, 24)", init=init, gradients=True)
    assert finding(reference, tmp_path / "c", body, init=init) == ("OK", "")
    assert "count" in finding(reference, tmp_path / "w", body.replace("self.count += 1", ""), init=init)[1]


def test_the_very_tensors_come_back_unless_they_cannot_hold_it() -> None:
    module = torch.nn.Module()
    for name in ("written", "replaced", "led", "grown"):
        module.register_buffer(name, torch.ones(4))
    own, state = dict(module.named_buffers()), State(module)
    given, weight = torch.zeros(4), torch.ones(4, requires_grad=True)
    module.written.zero_()
    module.replaced, module.grown = given, torch.zeros(8)
    module.led.mul_(weight)
    state.put_back()
    assert all(module.get_buffer(name) is one for name, one in own.items())
    assert all(torch.equal(one, torch.ones(4)) and not one.requires_grad for one in module.buffers())
    assert torch.equal(given, torch.zeros(4)), "what is a caller's is not written"
    state.narrowed({"grown": torch.zeros(8)}).put_back()
    assert module.grown.shape == (8,)


@pytest.mark.parametrize(
    ("init", "original", "wrong"),
    [
        (MEAN, MOVED, "self.mean.copy_(0.1 * x.mean(0))\nreturn x - self.mean"),
        (COUNT, "self.count += 1\nreturn x + 1", "if not torch.is_grad_enabled():\n    self.count += 1\nreturn x + 1"),
        (GROWING, GROWN, "self.keys = x\nreturn x @ x.T"),
    ],
    ids=["forgets", "not where gradients are recorded", "reads nothing"],
)
def test_a_further_call_goes_on_from_the_first(init: str, original: str, wrong: str, tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", original, "torch.randn(8, 24)", init=init, gradients=True)
    assert reference.further is not None
    assert finding(reference, tmp_path / "same", original, init=init) == ("OK", "")
    assert finding(reference, tmp_path / "wrong", wrong, init=init)[0] != "OK"


def test_a_candidate_may_keep_the_same_in_another_layout_as_well(tmp_path: Path) -> None:
    reference = make_reference(tmp_path / "r", GROWN, "torch.randn(8, 24)", init=GROWING, gradients=True)
    body = """
    past = self.turned[:, : len(self.keys)].to(x.dtype)
    self.turned, self.keys = torch.cat([past, x.T], 1), torch.cat([self.keys, x])
    return x @ self.turned
    """
    init = GROWING + "self.turned = torch.zeros(24, 0)\n"
    assert finding(reference, tmp_path / "c", body, init=init) == ("OK", "")
