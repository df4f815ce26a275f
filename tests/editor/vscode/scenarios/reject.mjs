import assert from "node:assert/strict";
import { FILE, MODULE } from "../project.mjs";

export const about = "reviewing changes nothing, and rejecting asks for a reason";

export const options = { offer: true };

export async function run({ page, screen, project, step, picture }) {
  await screen.offer();
  await screen.clearMessages();
  step("reviewing by the lens");
  await screen.lens("Review").click();
  await screen.diff.waitFor();
  step("leaving the question of the reason changes nothing");
  await page.locator(".editor-actions .action-label", { hasText: "Reject" }).click();
  await page.locator(".quick-input-widget", { hasText: "Why?" }).waitFor();
  await picture("reason");
  await page.keyboard.press("Escape");
  assert.ok(await screen.diff.isVisible());
  step("rejecting");
  await page.locator(".editor-actions .action-label", { hasText: "Reject" }).click();
  await screen.answer("Why?", "too hard to read");
  await screen.said("Noted: too hard to read");
  await screen.diff.waitFor({ state: "detached" });
  await screen.tab(FILE).waitFor();
  await screen.lens("Accept").waitFor({ state: "detached" });
  await page.locator(".squiggly-info").first().waitFor({ state: "detached", timeout: 10_000 });
  assert.equal(project.text(), MODULE);
}
