"""Keeps exchanges one after the other and says so after each, until it is killed.

Arguments: store path, number of the first one, and how many transactions it may begin before it kills itself in the
middle of the next one (0 leaves that to the caller).
"""

from __future__ import annotations

import os
import signal
import sys

from store_cases import exchange

from stark_lsp.store import RunStore, rows


def numbered(number: int):  # type: ignore[no-untyped-def]
    """Return the exchange of a number; some are long, so that they take several pages."""
    return exchange(number, body=f"{number} " + "x" * (number % 7 * 3000))


def main() -> None:
    """Go on until killed."""
    store, number, left = RunStore(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if left:
        touch = rows.touch

        def touch_and_die(*arguments: object) -> None:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)  # all is written, nothing is committed
            left -= 1
            touch(*arguments)  # type: ignore[arg-type]

        rows.touch = touch_and_die  # type: ignore[assignment]
    while True:
        store.exchanges.keep("r1", numbered(number))
        os.write(1, f"{number}\n".encode())
        number += 1


if __name__ == "__main__":
    main()
