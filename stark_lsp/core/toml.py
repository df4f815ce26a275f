"""TOML's reader of the standard library, of which Python 3.10 has a package of its own."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
