import assert from "node:assert/strict";
import { FILE } from "../project.mjs";

export const about = "in a folder that is not trusted nothing starts, and each command says why";

export const options = { trusted: false };

const COMMANDS = ["Optimize the class at the cursor", "Show status", "Dismiss plans"];

export async function run({ page, screen, step, picture, servers }) {
  const trust = page.locator(".monaco-dialog-box", { hasText: "Do you trust" });
  await trust.getByRole("button", { name: "No, I don't trust" }).click();
  await screen.tab(FILE).waitFor();
  for (const command of COMMANDS) {
    step(`STARK: ${command}`);
    await screen.clearMessages();
    await screen.command(`STARK: ${command}`);
    await screen.toast(/trust/i).waitFor();
    await picture(command.split(" ")[0].toLowerCase());
  }
  for (const message of await screen.messages()) {
    assert.doesNotMatch(message, /command '.*' not found/);
  }
  assert.deepEqual(servers(), [], "the server runs in a folder that is not trusted");
  assert.deepEqual(await screen.lenses(), []);

  step("trusting the folder by the message's button");
  await screen.toast(/trust/i).getByRole("button", { name: /trust/i }).click();
  await page.getByRole("button", { name: "Trust", exact: true }).first().click();
  await page.locator(".tab", { hasText: FILE }).click();
  await screen.ready();
  assert.equal(servers().length, 1);
}
