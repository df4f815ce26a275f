"""torch.compile's own cache is bounded, and nothing is taken from under another judge."""

from __future__ import annotations

import os
from pathlib import Path

from stark_lsp.judge.building.cache import inductor_folder, use_inductor_cache


def entry(tmp_path: Path, name: str, size: int, age: float) -> Path:
    path = tmp_path / "inductor" / name / "deep" / "code.so"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * size)
    when = path.stat().st_mtime - age
    os.utime(path, (when, when))
    return path


def test_what_was_written_longest_ago_goes_until_the_rest_fits(tmp_path: Path) -> None:
    old, middle, new = (entry(tmp_path, name, 100, age) for name, age in (("a", 300), ("b", 200), ("c", 100)))
    stray = tmp_path / "inductor" / "file"
    stray.write_bytes(b"x" * 100)
    os.utime(stray, (0, 0))
    use_inductor_cache(str(tmp_path), size=250).close()
    assert (old.exists(), middle.exists(), new.exists(), stray.exists()) == (False, True, True, False)
    assert sorted(os.listdir(inductor_folder(str(tmp_path)))) == ["b", "c"]


def test_within_the_bound_nothing_goes(tmp_path: Path) -> None:
    kept = entry(tmp_path, "a", 100, 300)
    use_inductor_cache(str(tmp_path)).close()
    assert kept.exists()


def test_nothing_goes_while_another_judge_runs(tmp_path: Path) -> None:
    first = use_inductor_cache(str(tmp_path))
    used = entry(tmp_path, "a", 100, 300)
    second = use_inductor_cache(str(tmp_path), size=1)
    assert used.exists()
    first.close()
    third = use_inductor_cache(str(tmp_path), size=1)
    assert used.exists(), "the second one still runs"
    second.close()
    third.close()
    use_inductor_cache(str(tmp_path), size=1).close()
    assert not used.exists()


def test_a_folder_that_is_not_there_yet_is_made(tmp_path: Path) -> None:
    use_inductor_cache(str(tmp_path / "new")).close()
    assert (tmp_path / "new" / "inductor").is_dir()
