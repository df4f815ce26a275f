"""Mailbox: questions as files, answered by whoever writes the answers' files, a person or another model.

A question is `NNNN.question.json`: the request's body with its number. Its answer is `NNNN.answer.json`, an object
with the fields of `replies.Reply`, of which `tool_input` or `text` is enough. A file that is no JSON yet is looked at
again. Answers written for an earlier server are not used.
"""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from messages_api.replies import Reply

if TYPE_CHECKING:
    from messages_api.server import Request

LOOK_EVERY_S = 0.05


class Mailbox:
    """A folder of questions and answers.

    Parameters
    ----------
    folder
        Made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        taken = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9].*.json")]
        self._next = max(taken, default=0) + 1
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Future[Reply]:
        """Write the question, and promise the answer."""
        with self._lock:
            number, self._next = self._next, self._next + 1
        question = self._folder / f"{number:04d}.question.json"
        draft = question.with_suffix(".draft")
        draft.write_text(json.dumps({"number": number, **request.body}, indent=1), encoding="utf-8")
        os.replace(draft, question)
        promise: Future[Reply] = Future()
        waiter = threading.Thread(target=self._watch, args=(number, promise, request), daemon=True)
        waiter.start()
        return promise

    def _watch(self, number: int, promise: Future[Reply], request: Request) -> None:
        path = self._folder / f"{number:04d}.answer.json"
        while request.disconnected_at is None:
            try:
                promise.set_result(Reply(**json.loads(path.read_text(encoding="utf-8"))))
                return
            except (OSError, ValueError, TypeError):
                time.sleep(LOOK_EVERY_S)
