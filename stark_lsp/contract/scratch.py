"""Private folders for a while, and those that a killed process left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile

_NAME = re.compile(r"^stark-(\d+)-\w+$")


def make_scratch(parent: str = "") -> str:
    """Return a new folder that only this user can read; its name tells which process it belongs to.

    Parameters
    ----------
    parent
        Where it is made, and others are removed whose processes are gone; by default the folder for temporary files.
    """
    parent = parent or tempfile.gettempdir()
    _collect(parent)
    return tempfile.mkdtemp(prefix=f"stark-{os.getpid()}-", dir=parent)


def remove_scratch(folder: str) -> None:
    """Remove a folder with all that is in it, which a hostile process may have written."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        # Perhaps nested deeper than Python can follow.
        subprocess.run(["rm", "-rf", "--", folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _collect(parent: str) -> None:
    """Remove this user's folders whose process is gone."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            match = _NAME.match(entry.name)
            if match is None or not entry.is_dir(follow_symlinks=False):
                continue
            if entry.stat(follow_symlinks=False).st_uid == os.getuid() and not _alive(int(match.group(1))):
                remove_scratch(entry.path)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
