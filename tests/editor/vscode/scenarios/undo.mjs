import assert from "node:assert/strict";
import { FILE, MODULE } from "../project.mjs";

export const about = "accepting is one edit: one undo brings the file back, byte for byte";

export const options = { offer: true };

export async function run({ page, screen, project, step, picture }) {
  await screen.offer();
  step("accepting by the lens");
  await screen.lens("Accept").click();
  await screen.said("was accepted");
  await screen.toast("as fast as eager").waitFor({ state: "hidden" }); // the question is answered
  await screen.save(FILE);
  const accepted = project.text();
  assert.match(accepted, /^# Optimized by STARK/m);
  assert.ok(accepted.includes("class NewGELU(nn.Module):"), "the class itself stays");
  assert.equal(await page.locator(".squiggly-info").count(), 0, "the plans vanish once it is decided");
  assert.ok(!(await screen.lenses()).some((title) => title.includes("get_inputs")), "the class has its inputs still");
  await screen.caretAt(accepted, "class NewGELUNew");
  await picture("accepted");

  step("one undo, one redo");
  await screen.focus();
  await page.keyboard.press("Control+Z");
  await screen.save(FILE);
  assert.equal(project.text(), MODULE);
  await page.keyboard.press("Control+Shift+Z");
  await screen.save(FILE);
  assert.equal(project.text(), accepted);
}
