// A folder as a newcomer has it: one module, and a virtual environment with torch.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";

export const FILE = "gelu.py";

export const MODULE = `"""Blocks of a small language model."""

import torch
import torch.nn as nn


class NewGELU(nn.Module):
    """The tanh form of GELU, as GPT-2 has it."""

    def forward(self, x):
        inner = 0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


def get_inputs():
    return [torch.randn(1024, 2048)]


def get_init_inputs():
    return []
`;

export const COMPILER = /^(.*-)?(cc|c\+\+|gcc|g\+\+|clang|clang\+\+|nvcc|icpx?|icc)(-[\d.]+)?$/;

export const PYTHON = /^(python|pypy)/;

/** Make a virtual environment that has nothing of ours, and torch if wanted: that of `python` is on its path. */
function makeEnvironment(python, folder, torch) {
  const made = spawnSync(python, ["-m", "venv", "--without-pip", folder], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  if (!torch) {
    return;
  }
  const find = "import importlib.util, os; print(os.path.dirname(os.path.dirname(importlib.util.find_spec('torch').origin)))";
  const found = spawnSync(python, ["-I", "-c", find], { encoding: "utf8" });
  assert.equal(found.status, 0, `${python} has no torch:\n${found.stderr}`);
  const lib = path.join(folder, "lib");
  for (const name of readdirSync(lib).filter((each) => each.startsWith("python"))) {
    writeFileSync(path.join(lib, name, "site-packages", "torch.pth"), found.stdout);
  }
}

/**
 * @param python an interpreter that has torch
 * @param torch whether the folder's environment has it too
 * @returns the folder, and what is on the disk in it
 */
export function makeProject(folder, python, torch) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, FILE), MODULE);
  makeEnvironment(python, path.join(folder, ".venv"), torch);
  return {
    folder,
    path: (name = FILE) => path.join(folder, name),
    text: (name = FILE) => readFileSync(path.join(folder, name), "utf8"),
    python: path.join(folder, ".venv", "bin", "python"),
  };
}

/**
 * Fill a state folder with a run on the module whose offer is open. The file it was made for is gone afterwards: wherever
 * the module appears again, the offer is on it.
 *
 * @param root the checkout, for the server's code
 */
export function leaveOffer(root, python, state) {
  const folder = mkdtempSync(path.join(os.tmpdir(), "stark-earlier-"));
  try {
    writeFileSync(path.join(folder, FILE), MODULE);
    const quick = ["--device", "cpu", "--model", "playbook", "--budget", "2", "--no-compile"];
    const env = { ...process.env, PYTHONPATH: root, STARK_STATE_DIR: state };
    const made = spawnSync(python, ["-m", "stark_lsp", "optimize", path.join(folder, FILE), ...quick], { encoding: "utf8", env });
    assert.equal(made.status, 0, made.stdout + made.stderr);
    assert.match(made.stdout, /proposal/, "the run has no proposal");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Put a finished run on the module into a state folder, whose figures are made up; its offer is open. See stored.py. */
export function storeRun(root, python, file, state) {
  mkdirSync(state, { recursive: true });
  const script = path.join(root, "tests", "editor", "vscode", "stored.py");
  const env = { ...process.env, PYTHONPATH: root };
  const made = spawnSync(python, [script, file, state], { encoding: "utf8", env });
  assert.equal(made.status, 0, made.stdout + made.stderr);
}

/** Hide programs of this machine, by their names, from an editor with this home: it takes the PATH of a login shell. */
export function hide(names, home) {
  const programs = path.join(home, "programs");
  mkdirSync(programs, { recursive: true });
  for (const folder of (process.env.PATH ?? "").split(path.delimiter).filter((each) => existsSync(each))) {
    for (const name of readdirSync(folder).filter((each) => !names.test(each))) {
      if (!existsSync(path.join(programs, name))) {
        symlinkSync(path.join(folder, name), path.join(programs, name));
      }
    }
  }
  writeFileSync(path.join(home, ".profile"), `PATH=${programs}\n`);
  return { PATH: programs };
}
