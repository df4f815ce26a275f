"""In mode eval a candidate leaves buffers as the original does, if calls change them; what is made once is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from verify_cases import finding, make_reference

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


@pytest.mark.parametrize(
    ("init", "original", "wrong", "named"),
    [
        (AMAX, OBSERVED, "return torch.relu(x)", "buffer amax after a call is 0"),
        (AMAX, OBSERVED, "self.amax.copy_(x.mean())\nreturn torch.relu(x)", "buffer amax after a call"),
        (CACHE, CACHED, "return x + x[0]", "buffer cache after a call"),
        (MEAN, MOVED, "return x - 0.1 * x.mean(0)", "buffer mean after a call"),
        (GROWING, GROWN, "return x @ x.T", "buffer keys after a call"),
        (COUNT, "self.count += 1\nreturn torch.relu(x)", "return torch.relu(x)", "buffer count after a call"),
    ],
    ids=["observer", "another value", "cache", "running mean", "cache that grows", "counter"],
)
def test_what_a_call_leaves_is_compared(init: str, original: str, wrong: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    reference = make_reference(tmp_path / "r", original, "torch.randn(8, 24)", init=init)
    assert finding(reference, tmp_path / "same", original, init=init) == ("OK", "")
    status, message = finding(reference, tmp_path / "wrong", wrong, init=init)
    assert status == "WRONG_RESULT"
    assert named in message


def test_each_call_begins_with_the_buffers_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
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
    (tmp_path / "r").mkdir()
    reference = make_reference(tmp_path / "r", CACHED, "torch.randn(8, 24)", init=CACHE)
    status, message = finding(reference, tmp_path / "c", "return x + x[0]", init="self.other = 1\n")
    assert (status, message) == ("WRONG_RESULT", "It has no buffer cache, which a call of the original changes.")


def test_what_is_made_once_is_a_candidates_own_affair(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    reference = make_reference(tmp_path / "r", MADE, "torch.randn(8, 24)", init=TABLE)
    assert reference.buffers is None
    assert finding(reference, tmp_path / "c", "return x * torch.arange(24.0)", init="self.other = 1\n") == ("OK", "")


def test_where_nothing_changes_nothing_is_asked(tmp_path: Path) -> None:
    init = 'self.norm = nn.BatchNorm1d(24)\nself.register_buffer("bias", torch.ones(24))\n'
    reference = make_reference(tmp_path, "return self.norm(x) + self.bias", "torch.randn(8, 24)", init=init)
    assert reference.buffers is None


def test_a_buffer_of_another_name_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    reference = make_reference(tmp_path / "r", CACHED, "torch.randn(8, 24)", init=CACHE)
    init, body = CACHE.replace('"cache"', '"kept"'), CACHED.replace("self.cache", "self.kept")
    assert finding(reference, tmp_path / "c", body, init=init) == ("OK", "")
    assert finding(reference, tmp_path / "w", "return x + x[0]", init=init)[0] == "WRONG_RESULT"
