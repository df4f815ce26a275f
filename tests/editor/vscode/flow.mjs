// The flow in a real VS Code, as a user goes through it: trust, lens, run, hover, diff, accept, reject.
//
//   node tests/editor/vscode/flow.mjs [--pictures FOLDER] [--sample NAME] [--attempts N] [--without-compile]
//
// See README.md here for what it needs.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { descendants, openWorkbench } from "./workbench.mjs";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
const RUN_MS = 900_000;

const { values: options } = parseArgs({
  options: {
    pictures: { type: "string" },
    sample: { type: "string", default: "new_gelu" },
    attempts: { type: "string", default: "4" },
    "without-compile": { type: "boolean", default: false },
  },
});

const home = process.env.STARK_VSCODE_HOME ?? path.join(os.homedir(), ".cache", "stark-vscode-test");
const python = path.resolve(process.env.STARK_TEST_PYTHON ?? path.join(ROOT, ".venv", "bin", "python"));
if (!existsSync(path.join(home, "node_modules", "code-server"))) {
  console.error(`There is no code-server in ${home}. Run tests/editor/vscode/setup.sh first.`);
  process.exit(2);
}

function step(text) {
  console.log(`${new Date().toISOString().slice(11, 19)}  ${text}`);
}

function packExtension() {
  const client = path.join(ROOT, "vscode-client");
  const packed = spawnSync("npm", ["run", "--silent", "package"], { cwd: client, encoding: "utf8" });
  assert.equal(packed.status, 0, `the extension could not be packed:\n${packed.stdout}${packed.stderr}`);
  return path.join(client, "stark-lsp.vsix");
}

const scratch = mkdtempSync(path.join(os.tmpdir(), "stark-vscode-"));
const folder = path.join(scratch, "net");
const file = `${options.sample}.py`;
mkdirSync(folder);
copyFileSync(path.join(ROOT, "samples", file), path.join(folder, file));
const original = readFileSync(path.join(folder, file), "utf8");

step("packing the extension");
const vsix = packExtension();
step("starting the editor");
const workbench = await openWorkbench({
  home,
  scratch,
  folder,
  vsix,
  settings: {
    "stark.server.interpreter": python,
    "stark.interpreter": python,
    "stark.device": "cpu",
    "stark.model": "playbook",
    "stark.attempts": Number(options.attempts),
    "stark.compileBaseline": !options["without-compile"],
  },
  environment: { STARK_STATE_DIR: path.join(scratch, "state") },
});
const { page } = workbench;
for (const name of ["SIGINT", "SIGTERM"]) {
  // The editor is a process group of its own: it must not outlive an interrupted test.
  process.once(name, () => void workbench.close().finally(() => process.exit(1)));
}
page.setDefaultTimeout(30_000);

async function picture(name, clip) {
  if (options.pictures !== undefined) {
    mkdirSync(options.pictures, { recursive: true });
    await page.screenshot({ path: path.join(options.pictures, `${name}.png`), ...(clip ? { clip } : {}) });
  }
}

const lens = (title) => page.locator(".codelens-decoration a", { hasText: title }).first();
const notification = (text) => page.locator(".notification-toast, .notification-list-item", { hasText: text }).first();
const serverRuns = () => descendants(workbench.pid).some((command) => command.includes("stark_lsp serve"));

async function runCommand(title) {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input").fill(`>${title}`);
  await page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first().waitFor();
  await page.keyboard.press("Enter");
}

async function openFile(name) {
  await page.keyboard.press("Control+P");
  await page.locator(".quick-input-widget input").fill(name);
  await page.locator(".quick-input-list .monaco-list-row", { hasText: name }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".tab.active", { hasText: name }).waitFor();
}

/** Wait for the run to end with its question; the progress shows meanwhile. */
async function waitForOffer() {
  const offer = notification("as fast as eager");
  await offer.waitFor({ timeout: RUN_MS });
  return offer;
}

try {
  step("the folder is not trusted: nothing is started");
  const trust = page.locator(".monaco-dialog-box", { hasText: "Do you trust" });
  await trust.waitFor();
  assert.ok(!serverRuns(), "the server runs in a folder that is not trusted");
  await trust.getByRole("button", { name: "Yes, I trust" }).click();

  step("opening the sample");
  await openFile(file);
  await page.keyboard.press("Control+B"); // closes the side bar
  await lens("Optimize with STARK").waitFor({ timeout: 60_000 });
  assert.ok(serverRuns());
  await picture("1-lens");

  step("optimizing");
  await lens("Optimize with STARK").click();
  const squiggle = page.locator(".squiggly-info").first();
  await squiggle.waitFor({ timeout: RUN_MS });
  await picture("2-running");
  const status = page.locator(".statusbar-item, .notification-toast", { hasText: "optimizing Model" });
  step(`progress: ${(await status.first().innerText()).trim().replaceAll("\n", " ")}`);

  const offer = await waitForOffer();
  step(`offer: ${(await offer.innerText()).split("\n").find((line) => line.includes("as fast"))}`);
  await lens("Accept").waitFor();
  await page.waitForTimeout(500); // the message slides in
  await picture("3-offer");

  step("hovering over an anchor");
  // The message may cover the hover; it stays behind the bell.
  const bell = page.locator("#status\\.notifications");
  await bell.click();
  await page.locator(".notifications-center.visible").waitFor();
  await bell.click();
  await page.locator(".notifications-center.visible").waitFor({ state: "hidden" });
  const box = await squiggle.boundingBox();
  await page.mouse.move(box.x + 10, box.y - 60);
  await page.mouse.move(box.x + Math.min(box.width / 2, 100), box.y + box.height / 2, { steps: 10 });
  const hover = page.locator(".monaco-hover:visible", { hasText: "Attempts" }).first();
  await hover.waitFor();
  const told = await hover.innerText();
  assert.match(told, /Measured on/);
  assert.match(told, /verified|vs eager/);
  await picture("4-hover");
  await page.mouse.move(5, 5);

  step("reviewing the diff");
  await bell.click();
  await notification("as fast as eager").getByRole("button", { name: "Review" }).click();
  await page.locator(".monaco-diff-editor").waitFor();
  const accept = page.locator(".editor-actions .action-label", { hasText: "Accept" });
  await accept.waitFor();
  await page.locator(".monaco-diff-editor", { hasText: "ModelNew" }).waitFor();
  await picture("5-diff");
  assert.equal(readFileSync(path.join(folder, file), "utf8"), original, "a review must change nothing");

  step("accepting");
  await accept.click();
  await notification("was accepted").waitFor();
  await page.locator(".monaco-diff-editor").waitFor({ state: "detached" });
  await page.locator(".tab.active", { hasText: file }).waitFor();
  await page.keyboard.press("Control+S");
  await page.locator(".tab.active.dirty").waitFor({ state: "detached" });
  const accepted = readFileSync(path.join(folder, file), "utf8");
  assert.match(accepted, /class ModelNew\(nn\.Module\)/);
  assert.ok(accepted.includes("class Model(nn.Module)"), "the original class stays beside the new one");
  const compiled = spawnSync(python, ["-m", "py_compile", path.join(folder, file)], { encoding: "utf8" });
  assert.equal(compiled.status, 0, compiled.stderr);
  assert.equal(await page.locator(".squiggly-info").count(), 0, "the plans vanish once it is decided");
  await picture("6-accepted");

  step("optimizing again, from the keyboard, and rejecting");
  await runCommand("Notifications: Clear All Notifications");
  await page.keyboard.press("Control+Home");
  await runCommand("STARK: Optimize the class at the cursor");
  await waitForOffer();
  await lens("Reject").click();
  const question = page.locator(".quick-input-widget", { hasText: "Why?" });
  await question.waitFor();
  await picture("7-reason");
  await question.locator("input").fill("too hard to read");
  await page.keyboard.press("Enter");
  await notification("Noted: too hard to read").waitFor();
  assert.equal(readFileSync(path.join(folder, file), "utf8"), accepted, "a rejection must change nothing");

  step("the whole flow works");
} catch (error) {
  await page.screenshot({ path: path.join(options.pictures ?? os.tmpdir(), "stark-vscode-failure.png") });
  console.error(workbench.log().split("\n").slice(-20).join("\n"));
  throw error;
} finally {
  await workbench.close();
  rmSync(scratch, { recursive: true, force: true, maxRetries: 5, retryDelay: 500 });
}
