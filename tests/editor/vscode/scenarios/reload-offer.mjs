import assert from "node:assert/strict";
import { FILE } from "../project.mjs";

export const about = "the window is reloaded with an open offer: it is there again, and can be accepted";

export const options = { offer: true };

export async function run({ page, screen, project, step, picture }) {
  await screen.offer();
  step("a line above the class, which changes nothing in it");
  await screen.goTo(2, 1);
  await page.keyboard.type("# a comment");
  await screen.save(FILE);
  step("reloading the window");
  await screen.reload();
  await screen.lens("Accept").waitFor();
  await screen.plan.waitFor();
  await screen.toast("as fast as eager").getByRole("button", { name: "Review" }).waitFor();
  await picture("back");
  assert.match(await (await screen.hoverPlan()).innerText(), /Attempts/);
  step("accepting");
  await screen.lens("Accept").click();
  await screen.said("was accepted");
  await screen.save(FILE);
  assert.match(project.text(), /^# Optimized by STARK/m);
  assert.ok(project.text().includes("\n# a comment\n"));
}
