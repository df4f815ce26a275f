import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { until } from "../screen.mjs";

export const about = "no Python is found: one message with a button, by which one is chosen and everything starts, terminals included";

export const options = { pythons: false };

export async function run({ page, screen, project, step, picture, servers }) {
  const elsewhere = path.join(path.dirname(project.folder), "elsewhere");
  await screen.said(/STARK needs Python 3.10 or newer/);
  assert.deepEqual(servers(), []);
  step("a command says the same");
  await screen.clearMessages();
  await screen.command("STARK: Show status");
  const toast = screen.toast(/STARK needs Python 3.10 or newer/);
  await toast.waitFor();
  await picture("message");
  step("choosing an interpreter");
  await toast.getByRole("button", { name: "Choose interpreter" }).click();
  const dialog = page.locator(".quick-input-widget", { hasText: "The Python of your project" });
  await dialog.waitFor();
  const python = path.join(elsewhere, "bin", "python");
  const input = dialog.locator("input");
  // The dialog lists a folder while one types, and puts its own text in place of what was typed meanwhile.
  await until("the path stands", async () => {
    if ((await input.inputValue()) !== python) {
      await input.fill(python);
      await page.waitForTimeout(1000);
    }
    return (await input.inputValue()) === python;
  });
  await picture("choice");
  await page.keyboard.press("Enter");
  await screen.ready();
  assert.equal(servers().length, 1);
  const settings = readFileSync(path.join(project.folder, ".vscode", "settings.json"), "utf8");
  assert.equal(JSON.parse(settings)["stark.interpreter"], python);

  step("stark-lsp in a terminal");
  await screen.command("Terminal: Create New Terminal");
  await page.locator(".terminal-wrapper.active .xterm-helper-textarea").waitFor({ state: "attached" });
  await page.keyboard.type("stark-lsp --version > version.txt\n");
  await until("stark-lsp answers", () => project.text("version.txt").startsWith("stark-lsp "));
  for (const message of await screen.messages()) {
    assert.doesNotMatch(message, /command '.*' not found/);
  }
}
