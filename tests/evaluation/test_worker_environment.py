"""What the worker's environment keeps, and what never reaches it."""

from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.evaluation.environment import worker_environment


def test_what_torch_and_compilers_need_is_kept() -> None:
    needed = {
        "PATH": "/usr/bin",
        "HOME": "/home/me",
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "CUDA_HOME": "/usr/local/cuda",
        "CUDA_VISIBLE_DEVICES": "0",
        "LD_LIBRARY_PATH": "/opt/lib",
        "VIRTUAL_ENV": "/venv",
        "OMP_NUM_THREADS": "4",
        "TORCH_LOGS": "dynamo",
        "TMPDIR": "/tmp",
        "CXX": "clang++",
    }
    assert worker_environment(needed) == needed


def test_secrets_and_everything_unknown_are_left_out() -> None:
    secrets = {
        "ANTHROPIC_API_KEY": "a",
        "GITHUB_TOKEN": "b",
        "AWS_SECRET_ACCESS_KEY": "c",
        "TORCH_HUB_TOKEN": "d",
        "CUDA_PASSWORD": "e",
        "SSH_AUTH_SOCK": "f",
        "HF_TOKEN": "g",
        "MY_OWN": "h",
    }
    assert worker_environment(secrets) == {}


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_nothing_is_added_or_changed(environ: dict[str, str]) -> None:
    assert worker_environment(environ).items() <= environ.items()
