import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { FILE, MODULE } from "../project.mjs";
import { until } from "../screen.mjs";

export const about = "from an empty profile and the .vsix alone to an accepted kernel in four clicks";

export const options = { settings: undefined, trusted: false };

export async function run({ page, screen, project, step, picture, servers }) {
  step("click 1: the folder is trusted; before that nothing was started");
  const trust = page.locator(".monaco-dialog-box", { hasText: "Do you trust" });
  await trust.waitFor();
  await screen.tab(FILE).waitFor();
  assert.deepEqual(servers(), [], "the server runs in a folder that is not trusted");
  await picture("0-trust");
  await trust.getByRole("button", { name: "Yes, I trust" }).click();

  await screen.ready();
  assert.equal(servers().length, 1);
  await picture("1-lens");
  step("click 2: Optimize");
  await screen.lens("Optimize with STARK").click();
  const progress = page.locator(".statusbar-item", { hasText: "optimizing NewGELU" });
  const judged = async () => (await progress.allInnerTexts()).some((text) => /best .* vs eager/.test(text));
  await until("an attempt is judged", judged, 420_000);
  await screen.hoverPlan();
  await picture("2-plan");
  await page.mouse.move(600, 600);

  const offered = await screen.offer();
  step(`offered: ${offered}`);
  await page.waitForTimeout(1000); // the message slides in
  await picture("3-offer");

  step("click 3: Review");
  await screen.toast("as fast as eager").getByRole("button", { name: "Review" }).click();
  await screen.diff.waitFor();
  await page.locator(".monaco-diff-editor .view-lines", { hasText: "STARK" }).first().waitFor();
  await screen.scrollTo("class NewGELUNew");
  await picture("4-diff");
  assert.equal(project.text(), MODULE, "a review must change nothing");

  step("click 4: Accept");
  await page.locator(".editor-actions .action-label", { hasText: "Accept" }).click();
  await screen.said("was accepted");
  await screen.diff.waitFor({ state: "detached" });
  await screen.tab(FILE).waitFor();
  // VS Code in the browser saves by itself.
  await until("the kernel is on the disk", () => project.text() !== MODULE);
  await screen.caretAt(project.text(), "class NewGELUNew");
  await picture("5-accepted");
  assert.match(project.text(), /class NewGELU\w+\(nn\.Module\)/);
  const compiled = spawnSync(project.python, ["-m", "py_compile", project.path()], { encoding: "utf8" });
  assert.equal(compiled.status, 0, compiled.stderr);

  assert.deepEqual(await screen.effort(), { clicks: 4, keys: 0 });
}
