"""Packs the VS Code extension together with the server and all that it needs.

    python vscode-client/pack.py [--platform NAME ... | --file FILE] [--repository URL]
    python vscode-client/pack.py --lock

1. The extension itself is built by npm; its files are copied into a staging folder.
2. The server and the packages of `bundled/requirements.txt` go into `bundled/libs` there, as wheels are unpacked.
   Almost all of them are pure Python. Two that the language model's SDK needs are not: they are put in for one
   platform and each Python of `PYTHONS`, side by side, since an extension module's name says which Python it is for.
3. `vsce` packs the folder.

`--lock` renews `bundled/requirements.txt` from `pyproject.toml`: one version of each package for all of `PYTHONS`.
Needs uv beside this Python, and node.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CLIENT = Path(__file__).resolve().parent
ROOT = CLIENT.parent
LOCK = CLIENT / "bundled" / "requirements.txt"

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
"""Versions that the bundle has everything for; newer ones can do all but ask a language model by its SDK."""
PLATFORMS = {
    "linux-x64": "x86_64-manylinux2014",
    "linux-arm64": "aarch64-manylinux2014",
    "darwin-x64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}
"""VS Code's names and uv's."""
COMPILED = ("pydantic-core", "jiter")
"""Packages without a form in pure Python. Others with extension modules (markupsafe, watchdog) do without."""
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
    oldest = ("--universal", "--python-version", PYTHONS[0], "--fork-strategy", "fewest")
    uv("pip", "compile", "pyproject.toml", *oldest, "--generate-hashes", "--no-annotate", "--no-header", "-o", LOCK)


def locked() -> dict[str, str]:
    """Return the lock's entries, hashes included, by package."""
    entries = re.split(r"\n(?=\S)", LOCK.read_text().strip())
    return {entry.partition("==")[0]: entry for entry in entries}


def fill(libs: Path, target: str) -> None:
    """Unpack the server and its packages for one platform into `libs`."""
    with tempfile.TemporaryDirectory() as scratch:
        wheels = Path(scratch, "wheels")
        uv("build", "--wheel", "--out-dir", wheels)
        install(libs, target, PYTHONS[0], LOCK)
        uv("pip", "install", "--no-deps", "--target", libs, *wheels.glob("*.whl"))
        compiled = Path(scratch, "compiled.txt")
        entries = locked()
        compiled.write_text("\n".join(entries[name] for name in COMPILED))
        for version in PYTHONS[1:]:
            other = Path(scratch, version)
            install(other, target, version, compiled)
            for module in other.rglob("*.so"):
                shutil.copy(module, libs / module.relative_to(other))
    shutil.rmtree(libs / "bin", ignore_errors=True)
    (libs / ".lock").unlink(missing_ok=True)
    # What nobody imports or reads: lists of files, one of which names a folder of the machine that packs, and lexers.
    unused = [*libs.glob("*.dist-info/direct_url.json"), *libs.glob("*.dist-info/RECORD")]
    unused += [lexer for lexer in libs.glob("pygments/lexers/*.py") if lexer.stem not in LEXERS]
    for file in unused:
        file.unlink()


def install(folder: Path, target: str, version: str, requirements: Path) -> None:
    """Install wheels for a Python and a platform that need not be this one's."""
    exact = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy")
    where = ("--target", folder, "--python-version", version, "--python-platform", PLATFORMS[target])
    uv("pip", "install", *exact, *where, "-r", requirements)


def stage(folder: Path, target: str, repository: str) -> None:
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
    fill(folder / "bundled" / "libs", target)


def pack(target: str, file: Path, repository: str) -> None:
    """Pack the extension for one platform into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        stage(Path(scratch), target, repository)
        options = ["--target", target, "--no-dependencies", *([] if repository else ["--allow-missing-repository"])]
        # The search for secrets reads thousands of files of other projects, for many minutes.
        options += ["--allow-package-all-secrets", "--allow-package-env-file"]
        run(CLIENT / "node_modules" / ".bin" / "vsce", "package", *options, "--out", file, cwd=Path(scratch))
    print(f"{os.path.relpath(file)}  ({file.stat().st_size / 1e6:.1f} MB)")


def here() -> str:
    """Return VS Code's name of this platform."""
    system = "darwin" if sys.platform == "darwin" else "linux"
    return f"{system}-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x64'}"


def origin() -> str:
    """Return where this checkout was cloned from as an address of the web; empty if that is no such place."""
    asked = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT, capture_output=True, text=True)
    address = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", asked.stdout.strip())
    return address.removesuffix(".git") if re.match(r"https://[^@]+$", address) else ""


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lock", action="store_true", help="renew bundled/requirements.txt, and pack nothing")
    parser.add_argument("--platform", nargs="+", choices=[*PLATFORMS, "all"], default=[here()], metavar="NAME")
    parser.add_argument(
        "--file", type=Path, help="the file to write, for this platform; default: one for each in dist/"
    )
    parser.add_argument("--repository", default=origin(), help="where the project lives, for the marketplaces")
    args = parser.parse_args()
    if args.lock:
        return lock()
    run("npm", "ci", "--no-audit", "--no-fund", "--silent", cwd=CLIENT)
    run("npm", "run", "--silent", "release", cwd=CLIENT)
    repository = args.repository.rstrip("/")
    if args.file:
        return pack(here(), args.file.resolve(), repository)
    for target in PLATFORMS if "all" in args.platform else args.platform:
        pack(target, ROOT / "dist" / f"stark-lsp-{target}.vsix", repository)
    return None


if __name__ == "__main__":
    main()
