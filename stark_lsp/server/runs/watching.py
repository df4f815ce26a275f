"""Changes on disk: of files with a run or a proposal, and of a folder with prompts.

Editors tell a server of changes to open documents only. An observer is started with the first run,
watches the folders that matter, and stops when nothing is left to watch.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from stark_lsp.server.text.folders import configuration_of, settings_folder
from stark_lsp.server.text.positions import path_of

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.desk import Desk

PAUSE_S = 0.3
"""Events within this time count as one: editors save by writing, renaming and deleting."""
TABLES = ("pyproject.toml", "stark.toml")
"""Files beside a document that can hold its inputs."""


class Watching:
    """Notices changes on disk."""

    def __init__(self, server: StarkServer, desk: Desk) -> None:
        self._server = server
        self._desk = desk
        self._observer: Any = None
        self._watches: dict[str, Any] = {}
        self._changed: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._warned = False
        self._store = ""
        """Path that the store's files begin with, once its changes are asked for."""
        self._store_changed: Callable[[], None] = lambda: None
        desk.watch = self.update
        server.closers.append(self.close)

    def update(self) -> None:
        """Watch what matters now."""
        folders = {os.path.dirname(path) for view in self._desk.views for path in (view.path, view.real)}
        folders |= self._prompts()
        if self._store:
            folders.add(os.path.dirname(self._store))
        for folder in [folder for folder in self._watches if folder not in folders]:
            self._observer.unschedule(self._watches.pop(folder))
        for folder in sorted(folders - set(self._watches)):
            self._add(folder)
        if not self._watches:
            self._stop()

    def watch_store(self, changed: Callable[[], None]) -> None:
        """Tell of changes of the store from now on, by whichever process: of its file, or of one beside it."""
        if self._store:
            return
        from stark_lsp.store.paths import default_store_path, make_private_dir

        store = default_store_path()
        try:
            make_private_dir(store.parent)
        except OSError as error:
            self._server.log(f"changes of the runs cannot be watched: {error}")
            return
        self._store, self._store_changed = str(store), changed
        self.update()

    async def close(self) -> None:
        """Watch nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop()

    def changed(self, path: str) -> None:
        """Take note of a change of `path`; acted upon a little later."""
        self._changed.add(path)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._act)

    def _add(self, folder: str) -> None:
        loop = asyncio.get_running_loop()
        from watchdog.events import FileSystemEventHandler
        from watchdog.observers import Observer

        watching = self

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.is_directory or event.event_type in ("opened", "closed_no_write"):
                    return
                for path in (event.src_path, event.dest_path):
                    if path:
                        text = os.fsdecode(path)
                        if not loop.is_closed():
                            loop.call_soon_threadsafe(watching.changed, text)

        try:
            if self._observer is None:
                self._observer = Observer()
                self._observer.daemon = True
                self._observer.start()
            self._watches[folder] = self._observer.schedule(Handler(), folder, recursive=False)
        except OSError as error:
            if not self._warned:
                self._warned = True
                self._server.log(f"changes in {folder} cannot be watched: {error}")

    def _prompts(self) -> set[str]:
        """Return the folders whose templates the runs that are shown take."""
        server = self._server
        found = (
            configuration_of(server, view.path).prompts(settings_folder(server, view.path)) for view in self._desk.views
        )
        return {folder for folder in found if folder is not None}

    def _stop(self) -> None:
        observer, self._observer = self._observer, None
        self._watches.clear()
        if observer is not None:
            observer.stop()

    def _act(self) -> None:
        self._timer = None
        changed, self._changed = self._changed, set()
        prompts = self._prompts()
        ours = {path for path in changed if self._store and path.startswith(self._store)}
        if ours:
            self._store_changed()
        if any(os.path.basename(path) in TABLES for path in changed - ours):
            for document in self._server.documents.all():
                document.reread()
            self._server.refresh_lenses()
        for path in sorted(changed - ours):
            if os.path.dirname(path) in prompts:
                self._server.log(f"{path} changed: the next plan uses it")
            self._desk.changed_on_disk(path)


def register(server: StarkServer, desk: Desk, watching: Watching) -> None:
    """Handle what clients tell of files."""
    python = types.FileOperationRegistrationOptions(
        [
            types.FileOperationFilter(types.FileOperationPattern("**/*.py"), scheme="file"),
            types.FileOperationFilter(
                types.FileOperationPattern("**", matches=types.FileOperationPatternKind.Folder), scheme="file"
            ),
        ]
    )

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def changed_files(params: types.DidChangeWatchedFilesParams) -> None:
        for event in params.changes:
            if (path := path_of(event.uri)) is not None:
                watching.changed(path)

    @server.feature(types.WORKSPACE_DID_RENAME_FILES, python)
    def renamed_files(params: types.RenameFilesParams) -> None:
        for file in params.files:
            old, new = path_of(file.old_uri), path_of(file.new_uri)
            if old is not None and new is not None:
                desk.renamed(old, new)

    @server.feature(types.WORKSPACE_DID_DELETE_FILES, python)
    def deleted_files(params: types.DeleteFilesParams) -> None:
        for file in params.files:
            if (path := path_of(file.uri)) is not None:
                watching.changed(path)

    def watch_tables() -> None:
        if server.facts.register_watched_files:
            watchers = [types.FileSystemWatcher(f"**/{name}") for name in TABLES]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            asking = server.register_later("stark-tables", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            server.spawn(asking, "asking for changes of input tables")

    server.on_initialized.append(watch_tables)
