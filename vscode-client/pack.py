"""Packs the VS Code extension together with the server and what that needs.

    python vscode-client/pack.py [--file FILE] [--repository URL]
    python vscode-client/pack.py --lock

1. The extension itself is built by npm; its files are copied into a staging folder.
2. The server and the packages of `bundled/requirements.txt` go into `bundled/libs` there, as wheels are unpacked. They
   are used as pure Python (markupsafe and watchdog do without their extension modules), so that one file serves every
   platform and every Python.
3. `vsce` packs the folder.

SDKs of language models are most of a bundle, and parts of them are compiled for each Python: only their versions and
hashes go along (`bundled/sdks.txt`), for the server to install them when a user first asks a model
(`stark_lsp/agents/models/sdk.py`).

`--lock` renews both lists from `pyproject.toml`: one version of each package for all Pythons from `OLDEST` on.
Needs uv beside this Python, and node; for `--lock` this is Python 3.11 or newer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CLIENT = Path(__file__).resolve().parent
ROOT = CLIENT.parent
LOCK = CLIENT / "bundled" / "requirements.txt"

SDKS = CLIENT / "bundled" / "sdks.txt"
LATER = ("anthropic", "openai")
"""Packages that are installed when they are needed, with what only they need."""
OLDEST = "3.10"
LEXERS = ("__init__", "_mapping", "python")
"""Of the language that is shown in colours on a terminal, and what finds it."""
SHIPPED = ("package.json", "README.md", "CHANGELOG.md", "LICENSE", "icon.png", "activity.svg", "out", "bundled")
LEFT_OUT = shutil.ignore_patterns("libs", "test", "*.map", "__pycache__")


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command; its output is shown only if it fails, which a warning of vsce counts as."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0 or " WARNING " in done.stdout:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")


def uv(*arguments: str | Path) -> None:
    """Run the uv that is installed beside this Python."""
    run(Path(sys.executable).parent / "uv", "--quiet", *arguments)


def lock() -> None:
    """Write the versions and hashes of all packages; what is there already stays unless it has to change."""
    import tomllib  # of Python 3.11 and newer

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["openai"]]
    later = [text for text in needed if re.split(r"[^\w-]", text, maxsplit=1)[0] in LATER]
    compiled(LOCK, [text for text in needed if text not in later])
    compiled(SDKS, later, "--constraints", LOCK)
    brought = entries(LOCK)
    SDKS.write_text("\n".join(text for name, text in entries(SDKS).items() if name not in brought) + "\n")


def compiled(file: Path, wanted: list[str], *options: str | Path) -> None:
    """Write the versions and hashes of some packages and of all that they need."""
    universal = ("--universal", "--python-version", OLDEST, "--fork-strategy", "fewest")
    plain = ("--generate-hashes", "--no-annotate", "--no-header")
    with tempfile.NamedTemporaryFile("w", suffix=".in") as source:
        source.write("\n".join(wanted))
        source.flush()
        uv("pip", "compile", source.name, *universal, *plain, *options, "-o", file)


def entries(file: Path) -> dict[str, str]:
    """Return the entries of a list, hashes included, by package."""
    found = re.split(r"\n(?=\S)", file.read_text().strip())
    return {entry.partition("==")[0]: entry for entry in found}


def fill(libs: Path) -> None:
    """Unpack the server and its packages into `libs`."""
    with tempfile.TemporaryDirectory() as scratch:
        wheels = Path(scratch, "wheels")
        uv("build", "--wheel", "--out-dir", wheels)
        exact = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy")
        uv("pip", "install", *exact, "--target", libs, "--python-version", OLDEST, "-r", LOCK)
        uv("pip", "install", "--no-deps", "--target", libs, *wheels.glob("*.whl"))
    shutil.rmtree(libs / "bin", ignore_errors=True)
    (libs / ".lock").unlink(missing_ok=True)
    # What nobody imports or reads: lists of files, one of which names a folder of the machine that packs, lexers, and
    # modules for one Python on one platform.
    unused = [*libs.glob("*.dist-info/direct_url.json"), *libs.glob("*.dist-info/RECORD"), *libs.rglob("*.so")]
    unused += [lexer for lexer in libs.glob("pygments/lexers/*.py") if lexer.stem not in LEXERS]
    for file in unused:
        file.unlink()


def stage(folder: Path, repository: str) -> None:
    """Put together what the extension consists of."""
    for name in SHIPPED:
        source = CLIENT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=LEFT_OUT)
        else:
            shutil.copy(source, folder)
    text = (CLIENT / "package.json").read_text()
    manifest = json.loads(text)
    (folder / "media").mkdir()
    for picture in set(re.findall(r'"media/([^"]+)"', text)):
        shutil.copy(ROOT / "docs" / "images" / picture, folder / "media")
    for development in ("scripts", "dependencies", "devDependencies"):
        del manifest[development]
    manifest["files"] = ["**"]
    if repository:
        manifest |= {
            "repository": {"type": "git", "url": repository},
            "homepage": f"{repository}#readme",
            "bugs": {"url": f"{repository}/issues"},
        }
    (folder / "package.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    fill(folder / "bundled" / "libs")


def pack(file: Path, repository: str) -> None:
    """Pack the extension into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        stage(Path(scratch), repository)
        options = ["--no-dependencies", *([] if repository else ["--allow-missing-repository"])]
        # The search for secrets reads thousands of files of other projects, for many minutes.
        options += ["--allow-package-all-secrets", "--allow-package-env-file"]
        run(CLIENT / "node_modules" / ".bin" / "vsce", "package", *options, "--out", file, cwd=Path(scratch))
    print(f"{os.path.relpath(file)}  ({file.stat().st_size / 1e6:.1f} MB)")


def origin() -> str:
    """Return where this checkout was cloned from as an address of the web; empty if that is no such place."""
    asked = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT, capture_output=True, text=True)
    address = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", asked.stdout.strip())
    return address.removesuffix(".git") if re.match(r"https://[^@]+$", address) else ""


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lock", action="store_true", help="renew both lists, and pack nothing")
    parser.add_argument("--file", type=Path, default=ROOT / "dist" / "stark-lsp.vsix", help="the file to write")
    parser.add_argument("--repository", default=origin(), help="where the project lives, for the marketplaces")
    args = parser.parse_args()
    if args.lock:
        return lock()
    run("npm", "ci", "--no-audit", "--no-fund", "--silent", cwd=CLIENT)
    run("npm", "run", "--silent", "release", cwd=CLIENT)
    return pack(args.file.resolve(), args.repository.rstrip("/"))


if __name__ == "__main__":
    main()
