"""Which layer is chosen, what a refusal says, and that a child which is not confined ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sandbox_cases import LAYERS, becoming, command, inside, need, policy_of

from stark_lsp.judge.sandbox import Layer, Refused, bubblewrap, canaries, choose, instructions, probe
from stark_lsp.judge.sandbox.confine import EXIT_UNCONFINED, read_instructions

WORKS = ("", "")


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> dict[Layer, tuple[str, str]]:
    """What trials come to; the real ones are in the other tests."""
    table = {Layer.BUBBLEWRAP: WORKS, Layer.LANDLOCK: WORKS}
    monkeypatch.setattr(probe, "attempt", lambda layer, *, gpu: table[layer])
    return table


def test_auto_takes_the_strongest_layer_that_works(outcomes: dict[Layer, tuple[str, str]]) -> None:
    assert choose("auto", gpu=False).layer is Layer.BUBBLEWRAP
    outcomes[Layer.BUBBLEWRAP] = ("it is not installed.", probe.INSTALL)
    choice = choose("auto", gpu=False)
    assert choice.layer is Layer.LANDLOCK
    assert "apt install bubblewrap" in choice.cure


def test_strict_takes_nothing_less_than_bubblewrap(outcomes: dict[Layer, tuple[str, str]]) -> None:
    assert choose("strict", gpu=False).layer is Layer.BUBBLEWRAP
    outcomes[Layer.BUBBLEWRAP] = ("it is not installed.", probe.INSTALL)
    with pytest.raises(Refused) as caught:
        choose("strict", gpu=False)
    assert caught.value.cure == probe.INSTALL


def test_with_no_layer_it_refuses_and_never_falls_back_on_plain_processes(
    outcomes: dict[Layer, tuple[str, str]],
) -> None:
    outcomes[Layer.BUBBLEWRAP] = ("it is not installed.", probe.INSTALL)
    outcomes[Layer.LANDLOCK] = ("the kernel offers none.", probe.NEWER)
    with pytest.raises(Refused) as caught:
        choose("auto", gpu=False)
    assert "not installed" in caught.value.reason
    assert "Linux 6.2" in caught.value.cure


def test_plain_processes_only_when_asked_for() -> None:
    assert choose("off", gpu=False).layer is Layer.PROCESS
    with pytest.raises(ValueError, match="auto, strict or off"):
        choose("of", gpu=False)


def test_no_cure_weakens_the_machine() -> None:
    for cure in (probe.INSTALL, probe.APPARMOR, probe.CONTAINER, probe.NEWER):
        assert "sysctl" not in cure
        assert "--privileged" not in cure


def test_a_bubblewrap_that_does_nothing_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper that only starts the program, as some containers have."""
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert bubblewrap.program() == str(fake)
    problem = probe._attempt(Layer.BUBBLEWRAP, gpu=False)[0]
    assert "not confined" in problem


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.value)
def test_a_child_that_can_read_the_canary_ends_before_it_does_anything(layer: Layer, tmp_path: Path) -> None:
    need(layer)
    policy = policy_of("run", tmp_path / "child")
    leaky = policy._replace(read=(*policy.read, policy.canary))
    done = inside(layer, leaky, [sys.executable, "-c", "print('ran')"])
    assert done.returncode == EXIT_UNCONFINED
    assert "it could read a file that it was not given" in done.stderr
    assert "ran" not in done.stdout


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.value)
def test_a_child_that_may_make_local_sockets_starts_only_where_connecting_is_refused(
    layer: Layer, tmp_path: Path
) -> None:
    """As for a GPU. Here it is this process that nothing refuses: there is no such socket, and that proves nothing."""
    need(layer)
    policy = policy_of("run", tmp_path, gpu=True)
    assert inside(layer, policy, ["true"]).returncode == 0
    tried = dict(canaries.forbidden(layer, policy))
    tried["connect to a Unix socket"]()


def test_a_child_that_was_started_without_its_sandbox_ends(tmp_path: Path) -> None:
    need(Layer.BUBBLEWRAP)
    policy = policy_of("run", tmp_path / "child")
    argv = becoming(instructions(Layer.BUBBLEWRAP, policy), ["echo", "ran"])
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_UNCONFINED
    assert done.stdout == ""


OLDER = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from stark_lsp.judge.sandbox import Layer, landlock
from stark_lsp.judge.sandbox.confine import enter, read_instructions
landlock.abi = lambda: int(sys.argv[2])
_, policy = read_instructions(sys.argv[3])
judge = os.getppid()
enter(Layer.LANDLOCK, policy)
for receiver in (judge, os.getpid()):
    try:
        os.kill(receiver, 0)
        print("signalled")
    except OSError as error:
        print(type(error).__name__)
with open("source.cpp", "w") as file:
    file.write("#include <vector>\\nint f() { return 1; }")
print(subprocess.call(["g++", "-shared", "-fPIC", "source.cpp", "-o", "library.so"]))
"""


@pytest.mark.parametrize("abi", [3, 4, 5, 6])
def test_a_kernel_with_an_older_landlock_keeps_the_same_promises(tmp_path: Path, abi: int) -> None:
    need(Layer.LANDLOCK)
    policy = policy_of("build", tmp_path / "child")
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", OLDER, root, str(abi), instructions(Layer.LANDLOCK, policy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["PermissionError", "signalled", "0"], done.stderr


def test_a_landlock_that_covers_too_little_is_refused(tmp_path: Path) -> None:
    policy = policy_of("build", tmp_path / "child")
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", OLDER, root, "2", instructions(Layer.LANDLOCK, policy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Landlock ABI 3 is needed, the kernel has 2" in done.stderr


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"layer": "landlock"}', '{"layer": "none", "policy": {}}'])
def test_a_child_that_is_told_nonsense_ends(text: str) -> None:
    done = subprocess.run(becoming(text, ["echo", "ran"]), capture_output=True, text=True)
    assert done.returncode == EXIT_UNCONFINED
    assert "Traceback" not in done.stderr


def test_a_policy_crosses_as_json(tmp_path: Path) -> None:
    policy = policy_of("build", tmp_path / "child")
    assert read_instructions(instructions(Layer.LANDLOCK, policy)) == (Layer.LANDLOCK, policy)
    for fields in ([], {}, {"read": [], "folder": "/", "more": 1}):
        with pytest.raises(ValueError, match="confinement"):
            read_instructions(json.dumps({"layer": "landlock", "policy": fields}))


def test_an_old_bubblewrap_without_sized_folders_keeps_them_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(Layer.BUBBLEWRAP)
    real = bubblewrap.options(bubblewrap.program() or "")
    monkeypatch.setattr(bubblewrap, "options", lambda bwrap: real - {"--size", "--disable-userns"})
    policy = policy_of("run", tmp_path / "child")
    done = inside(Layer.BUBBLEWRAP, policy, ["sh", "-c", "echo large > /tmp/file; cat /tmp/file"])
    assert done.stdout == "large\n"
    assert Path(policy.out, ".tmp", "file").read_text() == "large\n"


def test_the_child_is_the_first_to_go_when_memory_runs_out(tmp_path: Path) -> None:
    for layer in (*LAYERS, Layer.PROCESS):
        if layer is not Layer.PROCESS:
            need(layer)
        policy = policy_of("run", tmp_path / layer.value)
        done = subprocess.run(
            command(layer, policy, ["cat", "/proc/self/oom_score_adj"]), capture_output=True, text=True, check=False
        )
        assert done.stdout == "1000\n", layer
