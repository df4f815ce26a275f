import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { FILE, MODULE } from "../project.mjs";
import { until } from "../screen.mjs";

export const about = "kernels in one file of the package: one undo in the module takes back both files, and asks nothing";

export const options = { offer: true, settings: { "stark.kernels": "package" } };

const SHARED = "_stark_kernels.py";

export async function run({ page, screen, project, step, picture }) {
  writeFileSync(project.path("__init__.py"), "");
  await screen.offer();
  step("accepting by the lens");
  await screen.lens("Accept").click();
  await screen.said("was accepted");
  await screen.toast("as fast as eager").waitFor({ state: "hidden" }); // the question is answered
  // The new file's text comes a moment after the file.
  await page.locator(".tab", { hasText: SHARED }).waitFor();
  await screen.command("File: Save All Files");
  await until("both are on the disk", () => project.text() !== MODULE && project.text(SHARED) !== "");
  assert.match(project.text(), /^from \._stark_kernels import /m);
  await picture("accepted");

  step("one undo");
  await screen.focus();
  await page.keyboard.press("Control+Z");
  await until(`${SHARED} is gone`, () => !existsSync(project.path(SHARED)));
  await page.locator(".tab", { hasText: SHARED }).waitFor({ state: "detached" });
  assert.equal(await page.locator(".monaco-dialog-box").count(), 0);
  await screen.save(FILE);
  assert.equal(project.text(), MODULE);
}
