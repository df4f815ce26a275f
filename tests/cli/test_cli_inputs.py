"""`stark-lsp inputs` and `stark-lsp capture`, as commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_cases import begin, stark

MODEL = """import torch
from dataclasses import dataclass


@dataclass
class Config:
    width: int = 16


class Net(torch.nn.Module):
    def __init__(self, width, *, scale=1.0):
        super().__init__()
        self.scale = scale
        self.layer = torch.nn.Linear(width, width)

    def forward(self, x, mask=None):
        b, n, c = x.shape
        return self.layer(x) * self.scale


class Whole(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.net = Net(config.width)

    def forward(self, x):
        return self.net(x)
"""
SCRIPT = """import sys
import torch
from model import Config, Net, Whole

whole = Whole(Config())
net = Net(16, scale=2.0).to(torch.bfloat16)
print("the script's own words")
for step in range(int(sys.argv[1])):
    net(torch.rand(3, 5, 16, dtype=torch.bfloat16), mask=None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        whole(torch.rand(2, 4, 16))
if __name__ == "__main__":
    open("ended", "w").close()
"""


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return stark(*arguments, state=folder / "state", cwd=folder)


def test_inputs_are_written_into_the_file(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = command(tmp_path, "inputs", "model.py::Net", "--python", sys.executable, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "Net has inputs now, and runs with them" in done.stdout
    assert "torch.randn(8, 128, 512),  # x" in (tmp_path / "model.py").read_text()
    again = command(tmp_path, "inputs", "model.py::Net", "--python", sys.executable)
    assert again.returncode == 2
    assert "has inputs already" in again.stderr


@pytest.mark.slow
@pytest.mark.ci
def test_a_run_is_captured_into_a_table_or_printed_as_functions(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "stark.toml").write_text("# mine\n")
    done = command(tmp_path, "capture", "train.py", "--class", "model:Net", "--python", sys.executable, "--", "50")
    assert done.returncode == 0, done.stderr
    assert "4 calls, training mode" in done.stdout
    assert "own words" in done.stderr
    assert "own words" not in done.stdout, "what we print can be read by a program"
    assert not (tmp_path / "ended").exists(), "the script is stopped after a few calls"
    text = (tmp_path / "stark.toml").read_text()
    assert text.startswith("# mine\n")
    assert 'class = "model.py::Net"\ninit_args = [16]\ninit_kwargs = {scale = 2.0}\ndtype = "bfloat16"\n' in text
    assert 'shape = [3, 5, 16], dtype = "bfloat16", kind = "rand"' in text
    assert "mask" not in text, "an argument that is None as by default is left out"
    printing = ("--print", "--python", sys.executable, "--", "50")
    printed = command(tmp_path, "capture", "train.py", "--class", "model:Net", *printing)
    assert printed.stdout.splitlines()[0] == text.splitlines()[2], "the table begins with its comment"
    assert printed.stdout.count("\n") == text.count("\n") - 2, "and nothing else is printed"
    last = ("--calls", "0", "--python", sys.executable, "--", "3")
    whole = command(tmp_path, "capture", "train.py", "--class", "model.py::Whole", *last)
    assert whole.returncode == 0, whole.stderr
    assert "return [Config(width=16)]" in whole.stdout
    assert "under autocast to bfloat16" in whole.stdout
    assert '[[stark.input]]\nclass = "model.py::Whole"\nautocast = "bfloat16"\n' in whole.stdout
    assert "autocast" not in done.stdout
    assert (tmp_path / "ended").exists(), "with --calls 0 the script comes to its end"
    assert (tmp_path / "stark.toml").read_text() == text


ODD = """import enum
from dataclasses import dataclass, field

from torch import nn


@dataclass
class Config:
    scale: float = 1.0
    half: float = field(init=False)

    def __post_init__(self):
        self.half = self.scale / 2
        self.seen = True


class Kind(enum.Enum):
    FIRST = 1
    SECOND = 2


class Odd(nn.Module):
    def __init__(self, args, kind, config):
        super().__init__()
        self.width, self.kind = args.width, kind
        self.half = config.half

    def forward(self, x, *, scale=1.0, bias):
        assert self.kind is Kind.SECOND
        return x[:, : self.width] * scale * self.half + bias
"""
ODD_SCRIPT = """import argparse
import torch
from odd import Config, Kind, Odd

odd = Odd(argparse.Namespace(width=4), Kind.SECOND, Config(3.0))
odd(torch.randn(2, 8), scale=2.0, bias=torch.ones(4))
"""


def test_functions_that_are_captured_run(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    (tmp_path / "use.py").write_text(ODD_SCRIPT)
    done = command(tmp_path, "capture", "use.py", "--class", "odd.py::Odd", "--python", sys.executable)
    assert done.returncode == 0, done.stderr
    spaces: dict[str, Any] = {"__name__": "odd"}
    whole = ODD + done.stdout.partition("check it:\n")[2]
    exec(compile(whole, "odd.py", "exec", dont_inherit=True), spaces)
    module = spaces["Odd"](*spaces["get_init_inputs_for_Odd"]())
    inputs = spaces["get_inputs_for_Odd"]()
    assert list(inputs) == ["x", "scale", "bias"]
    assert module(**inputs).shape == (2, 4)


def test_functions_that_come_before_a_captured_table_are_told(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "import torch\n\n\nclass One(torch.nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
        "def get_inputs():\n    return [torch.ones(2)]\n"
    )
    (tmp_path / "use.py").write_text("import torch\nfrom one import One\nOne()(torch.randn(3))\n")
    done = command(tmp_path, "capture", "use.py", "--class", "one.py::One", "--python", sys.executable)
    assert done.returncode == 0, done.stderr
    said = "A table is in stark.toml, but one.py has get_inputs() (line 9), which comes first; remove it, or the table"
    assert f"{said} has no effect." in done.stdout
    assert "shape = [3]" in (tmp_path / "stark.toml").read_text()


STRANGE = """import sys
import torch
from model import Net

net = Net(16)
if sys.argv[1] == "compile":
    whole = torch.compile(torch.nn.Sequential(net))
    whole(torch.rand(3, 5, 16))
elif sys.argv[1] == "trace":
    torch.jit.trace(net, torch.rand(3, 5, 16))
elif sys.argv[1] == "sharded":
    Net.state_dict = None
    net(torch.rand(3, 5, 16))
else:
    for _ in range(2):
        torch.vmap(net)(torch.rand(2, 3, 5, 16))
    if sys.argv[1] == "both":
        net(torch.rand(3, 5, 16))
print("the end")
"""


@pytest.mark.parametrize("way", ["compile", "trace", "sharded", "vmap", "both"])
def test_calls_that_torch_looks_at_end_no_script(way: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "use.py").write_text(STRANGE)
    last = ("--python", sys.executable, "--", way)
    done = command(tmp_path, "capture", "use.py", "--class", "model.py::Net", *last)
    assert done.returncode == 0, done.stderr
    assert "the end" in done.stderr
    assert ("calls that cannot be described: 2" in done.stdout) == (way in ("vmap", "both"))
    if way == "vmap":
        assert "argument 1 is a Tensor that cannot be described (RuntimeError: vmap: " in done.stdout
    else:
        assert "shape = [3, 5, 16]" in (tmp_path / "stark.toml").read_text()


def test_a_class_is_found_by_the_name_that_a_package_gives_it(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "inner.py").write_text(MODEL)
    (tmp_path / "pkg" / "__init__.py").write_text("from .inner import Net\n")
    (tmp_path / "other.py").write_text("import torch\n\n\nclass Net(torch.nn.Linear): ...\n")
    (tmp_path / "use.py").write_text(
        "import other\nimport torch\nfrom pkg import Net\n\n"
        "for _ in range(9):\n    other.Net(2, 2)(torch.ones(2))\nNet(16)(torch.rand(3, 5, 16))\n"
    )
    done = command(tmp_path, "capture", "use.py", "--class", "pkg:Net", "--python", sys.executable)
    assert "Recorded from use.py: 1 call," in done.stdout, done.stderr
    assert 'class = "inner.py::Net"' in (tmp_path / "pkg" / "stark.toml").read_text()


def test_a_call_that_raises_is_not_what_a_class_is_called_with(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "use.py").write_text("import torch\nfrom model import Net\nNet(16)(torch.rand(3, 5, 17))\n")
    done = command(tmp_path, "capture", "use.py", "--class", "model.py::Net", "--python", sys.executable)
    assert done.returncode == 2
    assert "makes a model.py::Net and never calls it without an error." in done.stderr
    assert "record.py" not in done.stderr
    assert not (tmp_path / "stark.toml").exists()


@pytest.mark.parametrize(("filled", "low"), [("float('-inf')", "-inf"), ("torch.finfo(torch.float32).min", "-3.4")])
def test_a_mask_does_not_become_random_numbers(filled: str, low: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "use.py").write_text(
        "import torch\nfrom model import Net\n\n"
        f"Net(16)(torch.rand(3, 5, 16), mask=torch.full((5, 5), {filled}).triu(1))\n"
    )
    done = command(tmp_path, "capture", "use.py", "--class", "model.py::Net", "--python", sys.executable)
    said = f"the argument mask is a float32 tensor of shape [5, 5] that masks, holding {low}"
    assert f"A table cannot say this: {said}" in done.stdout
    assert '"mask": ...}' in done.stdout


def test_settings_that_are_not_utf_8_are_said_so(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "pyproject.toml").write_bytes("# für\n".encode("latin-1"))
    (tmp_path / "use.py").write_text("import torch\nfrom model import Net\nNet(16)(torch.rand(3, 5, 16))\n")
    done = command(tmp_path, "capture", "use.py", "--class", "model.py::Net", "--python", sys.executable)
    assert done.returncode == 2
    assert "pyproject.toml: is not UTF-8: " in done.stderr.replace("\n", " ")
    assert "Save it as UTF-8, as TOML must be." in done.stderr
    assert (tmp_path / "pyproject.toml").read_bytes() == b"# f\xfcr\n"


STUBBORN = """import os
import signal
import sys
import threading
import time
import torch
from model import Net

net = Net(16)
if sys.argv[1] == "holds":
    threading.Thread(target=time.sleep, args=(600,)).start()
try:
    for step in range(12 if sys.argv[1] == "holds" else 2):
        try:
            net(torch.rand(3, 5, 16))
        except:
            print("held")
    if sys.argv[1] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.killpg(0, signal.SIGINT)
    time.sleep(600)
finally:
    open("saved", "w").close()
"""


@pytest.mark.parametrize(("way", "calls"), [("holds", 8), ("dies", 2), ("is interrupted", 2)])
def test_what_was_captured_is_kept_however_a_script_ends(way: str, calls: int, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(STUBBORN)
    last = ("--class", "model.py::Net", "--python", sys.executable, "--", way)
    running = begin("capture", "train.py", *last, state=tmp_path / "state", cwd=tmp_path)
    said, told = running.communicate(timeout=60)
    assert running.returncode == 0, told
    assert f"Recorded from train.py: {calls} calls" in said
    assert "held" not in told
    assert not (tmp_path / "saved").exists(), "what would be saved then is not trained"
    assert (tmp_path / "stark.toml").is_file()


def test_no_secret_is_captured(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n"
        "    def __init__(self, args, hub_token, *, settings, url, pad_token):\n        super().__init__()\n\n"
        "    def forward(self, x):\n        return x\n"
    )
    (tmp_path / "use.py").write_text(
        "import argparse\nimport torch\nfrom net import Net\n\n"
        'args = argparse.Namespace(dim=4, wandb_key="abc-1", n_tokens="5")\n'
        'settings = {"credentials": ["abc-2"], "tokenizer": "bpe"}\n'
        f'Net(args, "abc-3", settings=settings, url="x?hf_{"aB3" * 10}", pad_token="<pad>")(torch.ones(2))\n'
    )
    done = command(tmp_path, "capture", "use.py", "--class", "net.py::Net", "--python", sys.executable)
    assert done.returncode == 0, done.stderr
    assert not any(secret in done.stdout for secret in ("abc-", "aB3"))
    assert "Namespace(dim=4, wandb_key=..., n_tokens='5')" in done.stdout
    assert "\"settings\": {'credentials': [...], 'tokenizer': 'bpe'}" in done.stdout
    assert "\"pad_token\": '<pad>'" in done.stdout
    assert "what looks like a secret, and is not written down" in done.stdout


@pytest.mark.slow
@pytest.mark.ci
def test_a_script_that_does_not_call_the_class_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text("import model\nmodel.Net(4)\nraise SystemExit(3)\n")
    done = command(tmp_path, "capture", "train.py", "--class", "model:Net", "--python", sys.executable)
    assert done.returncode == 2
    assert "makes a model:Net and never calls it" in done.stderr
    assert "exit code 3. Mend the script, or what is passed to it." in done.stderr


def test_a_script_that_fails_shows_its_own_frames(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text("import model\nmodel.Net(None)\n")
    done = command(tmp_path, "capture", "train.py", "--class", "model.py::Net", "--python", sys.executable)
    assert "record.py" not in done.stderr
    assert "runpy" not in done.stderr
    assert 'train.py", line 2' in done.stderr
    assert 'model.py", line 14, in __init__' in done.stderr
    gone = command(tmp_path, "capture", "train.py", "--class", "net/model.py::Net", "--python", sys.executable)
    assert gone.returncode == 2
    assert "net/model.py: There is no such file in" in gone.stderr
    assert "Traceback" not in gone.stderr


def test_a_class_that_is_defined_twice_gets_no_inputs(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL + "\n\nclass Net(torch.nn.Module): ...\n")
    before = (tmp_path / "model.py").read_text()
    done = command(tmp_path, "inputs", "model.py::Net", "--python", sys.executable, "--device", "cpu")
    assert done.returncode == 2
    assert "the class Net is defined more than once, on lines 10 and" in done.stderr
    assert (tmp_path / "model.py").read_text() == before


@pytest.mark.slow
def test_a_script_that_does_not_even_define_the_class_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text("import model\n")
    other = command(tmp_path, "capture", "train.py", "--class", "model:Not", "--python", sys.executable)
    assert "never comes to the class model:Not" in other.stderr
