// How long the extension holds up VS Code's extension host when it is activated, as VS Code itself says.
//
//   node benchmarks/activation.mjs [--starts 10] [--vsix FILE]
//
// Opens a folder with a module in a real VS Code (tests/editor/vscode/README.md says what that needs), asks for
// "Developer: Show Running Extensions" and reads the time of activation, anew for each start, in a new profile.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { install, openEditor } from "../tests/editor/vscode/editor.mjs";
import { FILE, makeProject } from "../tests/editor/vscode/project.mjs";
import { Screen } from "../tests/editor/vscode/screen.mjs";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const PYTHON = process.env.STARK_TEST_PYTHON ?? path.join(ROOT, ".venv", "bin", "python");
const { values } = parseArgs({ options: { starts: { type: "string", default: "10" }, vsix: { type: "string" } } });

const scratch = mkdtempSync(path.join(os.tmpdir(), "stark-activation-"));
try {
  const vsix = values.vsix ?? path.join(scratch, "stark-lsp.vsix");
  if (values.vsix === undefined) {
    spawnSync(PYTHON, [path.join(ROOT, "vscode-client", "pack.py"), "--file", vsix], { stdio: "inherit" });
  }
  const extensions = path.join(scratch, "extensions");
  install(path.resolve(vsix), extensions, scratch);
  const found = [];
  for (let start = 0; start < Number(values.starts); start++) {
    const own = path.join(scratch, String(start));
    const { folder } = makeProject(path.join(own, "net"), PYTHON, true);
    const open = await openEditor({
      ...{ scratch: own, folder, file: FILE, extensions, settings: {}, trusted: true },
      environment: { STARK_STATE_DIR: path.join(own, "state"), STARK_LOCKS_DIR: path.join(own, "locks") },
    });
    try {
      const screen = new Screen(open.page);
      await screen.lens("Optimize with STARK").waitFor();
      await screen.command("Developer: Show Running Extensions");
      const row = open.page.locator(".runtime-extensions-editor .monaco-list-row", { hasText: "STARK" });
      const said = await row.locator(".activation-time").innerText();
      found.push(Number(/(\d+)\s*ms/.exec(said)[1]));
      console.log(`${start + 1}: ${said}`);
    } finally {
      await open.close();
      rmSync(own, { recursive: true, force: true, maxRetries: 5, retryDelay: 500 });
    }
  }
  found.sort((a, b) => a - b);
  const median = (found[(found.length - 1) >> 1] + found[found.length >> 1]) / 2;
  console.log(`median ${median} ms, ${found[0]} to ${found.at(-1)} ms, n = ${found.length}`);
} finally {
  rmSync(scratch, { recursive: true, force: true, maxRetries: 5, retryDelay: 500 });
}
