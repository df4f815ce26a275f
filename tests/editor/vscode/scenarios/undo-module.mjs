import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { FILE, MODULE } from "../project.mjs";
import { until } from "../screen.mjs";

export const about = "accepting into a new file shows it, and one undo takes it back, from the disk too";

export const options = { offer: true, settings: { "stark.writeMode": "module" } };

export async function run({ page, screen, project, step, picture }) {
  const made = () => readdirSync(project.folder).filter((name) => name.endsWith("_stark.py"));
  await screen.offer();
  step("something typed before, which the undo must leave alone");
  await screen.goTo(1, 1);
  await page.keyboard.type("# Mine.\n");
  await screen.save(FILE);
  const before = project.text();
  assert.equal(before, `# Mine.\n${MODULE}`);

  step("accepting by the lens");
  await screen.lens("Accept").click();
  await screen.said("was accepted in");
  await screen.toast("as fast as eager").waitFor({ state: "hidden" }); // the question is answered
  const [name, ...others] = await until("the new file", () => made().length > 0 && made());
  assert.deepEqual(others, []);
  await screen.tab(name).waitFor();
  await screen.save(name);
  assert.match(project.text(name), /^class NewGELUNew\(nn\.Module\):/m);
  assert.match(project.text(name), /[^\n]\n$/, "one line end at the end");
  await screen.caretAt(project.text(name), "class NewGELUNew");
  await picture("accepted");

  step("one undo");
  await screen.focus();
  await page.keyboard.press("Control+Z");
  await until("the new file is gone", () => made().length === 0);
  await page.locator(".tab", { hasText: name }).waitFor({ state: "detached" });
  await screen.tab(FILE).waitFor();
  assert.equal(await page.locator(".monaco-dialog-box").count(), 0, "it asks nothing");
  assert.equal(await page.locator(".tab.dirty").count(), 0);
  assert.equal(project.text(), before);
  await picture("undone");
}
