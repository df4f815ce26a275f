"""Starts stark-lsp from `libs/` beside this file: `python -I -S bundled serve`.

With `-I -S` nothing that is installed for this Python can get in between, nor `PYTHONPATH`. That variable stays in the
environment, for the interpreter of the user's project, and nothing of `libs/` enters it.
"""

import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036 - this file alone is also read by what is older
    sys.exit("stark-lsp needs Python 3.10 or newer, and %s is %d.%d." % ((sys.executable,) + sys.version_info[:2]))  # noqa: RUF005, UP031

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "libs"))

from stark_lsp.cli import main

if __name__ == "__main__":
    sys.exit(main())
