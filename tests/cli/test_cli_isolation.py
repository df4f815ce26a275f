"""What the doctor says of isolation, for every state a machine can be in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stark_lsp.cli.checks import isolation
from stark_lsp.cli.checks.health import Health


def found(bubblewrap: bool, landlock: bool, *, layer: str | None) -> dict[str, Any]:
    """Return a worker's answer."""
    return {
        "layers": {
            "bubblewrap": {
                "works": bubblewrap,
                "problem": "" if bubblewrap else "it is not installed.",
                "cure": "Install it.",
            },
            "landlock": {"works": landlock, "problem": "" if landlock else "the kernel offers none.", "cure": "Newer."},
        },
        "auto": {"layer": layer, "reason": "Because.", "cure": "Install it."},
        "strict": {"layer": "bubblewrap" if bubblewrap else None, "reason": "", "cure": ""},
        "gpu": False,
        "abi": 7 if landlock else 0,
        "bubblewrap": "/usr/bin/bwrap" if bubblewrap else None,
        "user_namespaces": bubblewrap,
    }


def test_a_missing_bubblewrap_is_no_harm_where_landlock_holds() -> None:
    first, _, third = isolation.checks(found(False, True, layer="landlock"))
    assert (first.health, third.health) == (Health.ABSENT, Health.GOOD)
    assert first.cure == "Install it."


def test_with_no_layer_the_doctor_says_how_to_get_one_and_how_to_do_without() -> None:
    first, _, third = isolation.checks(found(False, False, layer=None))
    assert (first.health, third.health) == (Health.BROKEN, Health.ABSENT)
    assert first.cure.startswith("Install it.")
    assert "--isolation off" in first.cure


def test_an_interpreter_that_cannot_try_it_is_told(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho cannot load this; exit 3\n")
    fake.chmod(0o755)
    report = isolation.examine(str(fake))
    assert report.layer is None
    assert "cannot load this" in report.reason
    assert "Candidates are not run" in report.words
    assert all(check.health is Health.BROKEN for check in report.checks)


@pytest.mark.parametrize("layer", ["bubblewrap", "landlock"])
def test_every_layer_has_words(layer: str) -> None:
    assert "no network" in isolation.Report(layer, "", "").words
