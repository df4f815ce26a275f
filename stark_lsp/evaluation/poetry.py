"""The environments that poetry keeps for a project away from its folder, found by poetry's own rule without running it.

Their name is the project's, a digest of its folder, and the version of Python: `models-Ywo2RuVk-py3.11`
(`poetry.utils.env.EnvManager.generate_env_name`).
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path, user_config_path

from stark_lsp.core.toml import tomllib


def environments(project: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the environments of the project in a folder, the one poetry would take first; none without poetry."""
    settings = _read(project / "pyproject.toml")
    poetry = settings.get("tool", {}).get("poetry")
    backend = settings.get("build-system", {}).get("build-backend", "")
    if not isinstance(poetry, dict) and "poetry" not in str(backend) and not (project / "poetry.lock").is_file():
        return ()
    name = settings.get("project", {}).get("name") or (poetry or {}).get("name") or "non-package-mode"
    base = _base(str(name), project)
    kept = _kept(environ)
    chosen = _read(kept / "envs.toml").get(base, {}).get("minor", "")
    found = sorted(kept.glob(f"{base}-py*"), key=_version, reverse=True)
    return tuple(sorted(found, key=lambda folder: folder.name != f"{base}-py{chosen}"))


def _base(name: str, project: Path) -> str:
    canonical = re.sub(r"[-_.]+", "-", name).lower()
    cleaned = re.sub(r'[ $`!*@"\\\r\n\t]', "_", canonical)[:42]
    digest = hashlib.sha256(os.path.normcase(os.path.realpath(project)).encode()).digest()
    return f"{cleaned}-{base64.urlsafe_b64encode(digest).decode()[:8]}"


def _kept(environ: Mapping[str, str]) -> Path:
    """Return the folder that poetry keeps environments in."""
    config = Path(environ.get("POETRY_CONFIG_DIR") or user_config_path("pypoetry", appauthor=False, roaming=True))
    settings = _read(config / "config.toml")
    cache = environ.get("POETRY_CACHE_DIR") or settings.get("cache-dir") or user_cache_path("pypoetry", appauthor=False)
    named = environ.get("POETRY_VIRTUALENVS_PATH") or settings.get("virtualenvs", {}).get("path")
    return Path(os.path.expanduser(str(named or "{cache-dir}/virtualenvs").replace("{cache-dir}", str(cache))))


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", folder.name.rpartition("-py")[2]))


def _read(file: Path) -> dict[str, Any]:
    """Return what a TOML file holds, nothing if it cannot be read."""
    try:
        return dict(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
