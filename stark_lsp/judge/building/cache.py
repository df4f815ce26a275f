"""Folders kept between runs under a key of their content: libraries, what speeds builds up, what Triton compiled.

An entry is written under another name, flushed to the disk and then renamed, so that whoever is killed on the way
leaves no half entry. Locks go with their holder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from ..device.turns import lock_file
from ..processes import copies

ENTRIES = 400
BYTES = 2 << 30
TRITON_BYTES = 4 << 30
INDUCTOR_BYTES = 4 << 30
TRITON_LIMIT = 256 << 20
"""Bytes that Triton may compile for one source, if they are to be kept."""
GROUP = "__grp__"
"""How Triton's lists of the files of a kernel begin (`triton/runtime/cache.py`)."""
GROUP_LIMIT = 1 << 16
RECENT_S = 600.0
"""An entry used so recently is kept: somebody may be about to read it."""
POLL_S = 0.02
FILE = 512 << 20
"""Bytes of one file that are taken over from a builder."""
CHUNK = 1 << 20
NEW = "new-"
NOTE = "entry.json"
COMPILED = "compiled"


class NotTaken(Exception):
    """A builder's file is not what was asked for; the text says why."""


class Entry(NamedTuple):
    """One file that is kept."""

    path: str
    facts: dict[str, Any]
    """What was noted about it."""


@dataclass(eq=False)
class Store:
    """All entries below `root`; safe between threads, processes, and with whoever is killed."""

    root: str
    """Created when missing."""
    entries: int = ENTRIES
    size: int = BYTES
    """How many entries and bytes are kept; the ones used longest ago go first."""

    def __post_init__(self) -> None:
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        self._sweep()
        self._prune()

    @contextlib.contextmanager
    def hold(self, key: str, seconds: float) -> Iterator[bool]:
        """Keep everybody else from making this entry; says whether that was possible in time."""
        deadline = time.monotonic() + seconds
        # A few hundred locks for all keys: so their files can stay, and need no care.
        with lock_file(os.path.join(self.root, f"{key[:2]}.lock")) as file:
            while not (held := _locked(file)) and time.monotonic() < deadline:
                time.sleep(POLL_S)
            yield held

    @contextlib.contextmanager
    def _made(self, key: str, note: dict[str, Any]) -> Iterator[str]:
        """Yield a new folder, which becomes the entry once the block has ended; call it while holding the key."""
        new = os.path.join(self.root, f"{NEW}{key}-{secrets.token_hex(4)}")
        os.mkdir(new, 0o700)
        try:
            yield new
            with open(os.path.join(new, NOTE), "w", encoding="utf-8") as file:
                json.dump(note, file)
                file.flush()
                os.fsync(file.fileno())
            final = os.path.join(self.root, key)
            shutil.rmtree(final, ignore_errors=True)
            os.rename(new, final)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self._prune()

    def _sweep(self) -> None:
        """Remove what was being written by processes that are gone."""
        for name in os.listdir(self.root):
            if name.startswith(NEW):
                with self.hold(name[len(NEW) :], 0.0) as held:
                    if held:
                        shutil.rmtree(os.path.join(self.root, name), ignore_errors=True)

    def _prune(self) -> None:
        """Remove the entries used longest ago until the rest fits."""
        found = []
        for name in os.listdir(self.root):
            folder = os.path.join(self.root, name)
            if name.startswith(NEW) or not os.path.isdir(folder):
                continue
            try:
                used = os.path.getmtime(os.path.join(folder, NOTE))
            except OSError:
                used = 0.0
            found.append((used, sum(size for _, size, _ in copies.files(folder)), folder))
        total = 0
        for index, (used, size, folder) in enumerate(sorted(found, reverse=True)):
            total += size
            if (index >= self.entries or total > self.size) and time.time() - used > RECENT_S:
                shutil.rmtree(folder, ignore_errors=True)


class Cache(Store):
    """Entries of one file each, which are checked against their digest when they are read."""

    def get(self, key: str) -> Entry | None:
        """Return an entry that is whole, None otherwise."""
        folder = os.path.join(self.root, key)
        note = os.path.join(folder, NOTE)
        try:
            with open(note, encoding="utf-8") as file:
                facts = json.load(file)
            path = os.path.join(folder, os.path.basename(facts["file"]))
            whole = os.path.getsize(path) == facts["size"] and digest(path) == facts["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not whole:
            return None
        with contextlib.suppress(OSError):
            os.utime(note)
        return Entry(path, facts["facts"])

    def put(self, key: str, source: str, name: str, facts: dict[str, Any]) -> Entry:
        """Take a builder's file over; call it while holding the key.

        Parameters
        ----------
        source
            Where the builder left it.

        Raises
        ------
        NotTaken
            It is no regular file, or too large.
        OSError
            It cannot be written, for instance because the disk is full.
        """
        note: dict[str, Any] = {"file": name, "facts": facts}
        with self._made(key, note) as new:
            note["size"], note["sha256"] = take(source, os.path.join(new, name))
        return Entry(os.path.join(self.root, key, name), facts)


class TritonCache(Store):
    """What Triton compiled for each candidate source; `toolchain` is what besides the source decides the result."""

    def __init__(self, cache_dir: str, toolchain: list[str], entries: int = ENTRIES, size: int = TRITON_BYTES) -> None:
        super().__init__(os.path.join(cache_dir, "triton"), entries, size)
        self._toolchain = toolchain

    def _key(self, source: str) -> str:
        text = "\0".join([source, *self._toolchain])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]

    def fill(self, source: str, target: str) -> bool:
        """Copy what was compiled for a source to a candidate's own folder; returns whether there was anything."""
        entry = os.path.join(self.root, self._key(source))
        with contextlib.suppress(OSError, copies.TooLarge):
            os.utime(os.path.join(entry, NOTE))
            copied = copies.copy_tree(os.path.join(entry, COMPILED), target, TRITON_LIMIT)
            lead_here(target)
            return copied > 0
        return False

    def keep(self, source: str, made: str) -> None:
        """Keep what a candidate that was not cut short has compiled into its folder; one that holds nothing is not."""
        key = self._key(source)
        with self.hold(key, 0.0) as held, contextlib.suppress(OSError, copies.TooLarge):
            if held:
                with self._made(key, {}) as new:
                    if not copies.copy_tree(made, os.path.join(new, COMPILED), TRITON_LIMIT):
                        raise FileNotFoundError("nothing was compiled")


def lead_here(folder: str) -> None:
    """Have Triton find what was copied: its lists of the files of a kernel name them by their whole paths."""
    for path, _, _ in copies.files(folder):
        here, name = os.path.split(path)
        if name.startswith(GROUP):
            # A candidate's process wrote it. What cannot be read is compiled anew.
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
                with copies.regular(path) as file:
                    named = json.loads(file.read(GROUP_LIMIT))["child_paths"]
                paths = {name: os.path.join(here, os.path.basename(name)) for name in named}
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"child_paths": paths}, file)


def inductor_folder(cache_dir: str) -> str:
    """Return where torch.compile keeps its cache."""
    return os.path.join(cache_dir, "inductor")


def use_inductor_cache(cache_dir: str, size: int = INDUCTOR_BYTES) -> IO[bytes]:
    """Return the right to use the cache that torch.compile keeps of its own, which ends with the file's `close`.

    torch itself never removes anything from it. Where nobody else uses it at this moment, it is cut down to `size`
    bytes: which entry belongs to which is torch's own affair, so whole top-level entries go, those written longest ago
    first. What is missing it makes anew.
    """
    folder = inductor_folder(cache_dir)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    used = lock_file(folder + ".lock")
    # A file system without locks: then nobody knows who else is there, and nothing is removed.
    with contextlib.suppress(OSError):
        if _locked(used):
            _cut_down(folder, size)
    with contextlib.suppress(OSError):
        fcntl.flock(used, fcntl.LOCK_SH)
    return used


def _locked(file: IO[bytes]) -> bool:
    """Lock a file until it is closed (flock(2)); returns whether that was possible at once."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _cut_down(folder: str, limit: int) -> None:
    """Remove what was written longest ago until the rest fits."""
    found = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        own = list(copies.files(path)) if os.path.isdir(path) else []
        with contextlib.suppress(OSError):
            changed = max((changed for _, _, changed in own), default=os.lstat(path).st_mtime)
            found.append((changed, sum(size for _, size, _ in own) or os.lstat(path).st_size, path))
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > limit:
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(path)


def key_of(value: Any) -> str:
    """Return the key of some JSON values."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:40]


def digest(path: str) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(CHUNK), b""):
            found.update(chunk)
    return found.hexdigest()


def take(source: str, target: str) -> tuple[int, str]:
    """Copy a builder's file to a place that the builder cannot reach, and return its size and SHA-256.

    Raises
    ------
    NotTaken
        It is no regular file, or too large.
    """
    try:
        left = copies.regular(source)
    except copies.NotRegular:
        raise NotTaken("The build left something that is no file.") from None
    except OSError as error:
        raise NotTaken(f"The build left nothing that can be read: {error.strerror}.") from error
    found = hashlib.sha256()
    size = 0
    with left as file, open(target, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as copy:
        for chunk in iter(lambda: file.read(CHUNK), b""):
            size += len(chunk)
            if size > FILE:
                raise NotTaken(f"The build left more than {FILE >> 20} MiB.")
            found.update(chunk)
            copy.write(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    return size, found.hexdigest()
