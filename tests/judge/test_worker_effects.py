"""What a call does besides returning is seen, so that nobody takes it away without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from verify_cases import make_reference

from stark_lsp.contract.errors import Degenerate

HEAD = """
import collections
import functools
import logging

HISTORY = []
COUNTS = collections.Counter()
log = logging.getLogger("of.the.user")


@functools.lru_cache
def scale(width):
    return width**0.5
"""


@pytest.mark.parametrize(
    ("init", "body", "named"),
    [
        ("self.stats = {}", "self.stats['mean'] = x.detach().mean()\nreturn torch.relu(x)", "self.stats"),
        ("self.calls = 0", "self.calls += 1\nreturn torch.relu(x)", "self.calls"),
        ("self.last = None", "self.last = x.detach()\nreturn torch.relu(x)", "self.last"),
        ("self.seen = {'all': [0]}", "self.seen['all'][0] += 1\nreturn torch.relu(x)", "self.seen"),
        ("self.mean = torch.zeros(())", "self.mean += x.mean()\nreturn torch.relu(x)", "self.mean"),
        ("self.a = 1", "HISTORY.append(tuple(x.shape))\nreturn torch.relu(x)", "HISTORY"),
        ("self.a = 1", "COUNTS['calls'] += 1\nreturn torch.relu(x)", "COUNTS"),
    ],
    ids=["a dict", "a counter", "the last", "nested", "a tensor", "a global", "a global counter"],
)
def test_what_each_call_changes_is_named(init: str, body: str, named: str, tmp_path: Path) -> None:
    reference = make_reference(tmp_path, body, "torch.randn(4, 24)", init=init, before=HEAD)
    assert reference.kept == [named]
    assert [note for note in reference.notes if f"Each call also changes {named}," in note]


@pytest.mark.parametrize(
    "said",
    [
        "print('called', flush=True)",
        "log.warning('called %s', x.shape)",
        "__import__('sys').stderr.write('called')",
    ],
)
def test_that_it_prints_or_logs_is_told(said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = make_reference(tmp_path, f"{said}\nreturn torch.relu(x)", "torch.randn(4, 24)", before=HEAD)
    assert reference.kept == []
    assert "Each call prints or logs something, which candidates may leave out." in reference.notes
    if "print" in said:
        assert "called" in capsys.readouterr().out


@pytest.mark.parametrize(
    "body",
    [
        "if 'w' not in self.cache:\n    self.cache['w'] = torch.arange(24.0)\nreturn x * self.cache['w']",
        "return torch.relu(x) * scale(x.shape[-1])",
        "self.cache.setdefault(tuple(x.shape), 0)\nreturn torch.relu(x)",
    ],
    ids=["made once", "a function's own cache", "by shape"],
)
def test_what_is_kept_once_and_for_all_is_nothing_to_tell(body: str, tmp_path: Path) -> None:
    reference = make_reference(tmp_path, body, "torch.randn(4, 24)", init="self.cache = {}", before=HEAD)
    assert reference.kept == []
    assert not [note for note in reference.notes if "Each call" in note]


def test_a_result_that_follows_from_what_earlier_calls_kept_is_refused_with_its_name(tmp_path: Path) -> None:
    body = "self.h = torch.tanh(x + self.h)\nreturn self.h"
    with pytest.raises(Degenerate, match=r"Each call changes self\.h, which the next one goes on from") as caught:
        make_reference(tmp_path, body, "torch.randn(4, 24)", init="self.h = 0.0")
    assert "register_buffer" in caught.value.cure
