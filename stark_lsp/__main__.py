"""`python -m stark_lsp` is `stark-lsp`."""

from __future__ import annotations

import sys

from stark_lsp.cli import main

if __name__ == "__main__":
    sys.exit(main())
