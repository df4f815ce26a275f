"""How property tests draw their examples: the same ones each time, so that a test says the same of the same code.

`pytest --hypothesis-profile search` draws other examples each time, and many more: to be run after a change, and what
it finds becomes a test of its own.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

if "PYTEST_XDIST_WORKER" in os.environ:
    # Other tests use the cores too, so a thread that waits for its neighbour waits until that gets a core: tests that
    # are about threads ask for `several_threads`. Set before anything imports torch; judges inherit it.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Nor is a core taken by waiting: a thread sleeps almost at once, as in a judge's children, see `spin_limit`. Nor by
# compiling a test of each of the processor's instructions, 8 s in each process, see `runner_environment`.
for name, value in {"GOMP_SPINCOUNT": "100", "KMP_BLOCKTIME": "1", "TORCHINDUCTOR_VEC_ISA_OK": "1"}.items():
    os.environ.setdefault(name, value)

# No deadline, and no check of how fast examples are drawn: how long either takes depends on the machine.
SLOW = [HealthCheck.too_slow]
settings.register_profile(
    "same", max_examples=60, derandomize=True, database=None, deadline=None, print_blob=True, suppress_health_check=SLOW
)
settings.register_profile(
    "search", max_examples=2000, database=None, deadline=None, print_blob=True, suppress_health_check=SLOW
)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def _locks_of_its_own() -> Iterator[None]:
    """Wait neither for the user's own runs nor for other tests that go on at the same time, nor keep these waiting."""
    before = os.environ.get("STARK_LOCKS_DIR")
    folder = os.environ["STARK_LOCKS_DIR"] = tempfile.mkdtemp(prefix="stark-locks-")
    yield
    if before is None:
        del os.environ["STARK_LOCKS_DIR"]
    else:
        os.environ["STARK_LOCKS_DIR"] = before
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def several_threads() -> Iterator[None]:
    """Have torch, and kernels that ask it, use threads, although other tests go on at the same time."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(max(2, before))
    yield
    torch.set_num_threads(before)
