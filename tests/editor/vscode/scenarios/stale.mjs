import assert from "node:assert/strict";
import { FILE, MODULE } from "../project.mjs";

export const about = "the class was edited meanwhile: accepting says so and changes nothing";

export const options = { offer: true };

export async function run({ page, screen, project, step, picture }) {
  await screen.offer();
  step("editing the class");
  await screen.goTo(12, 16); // before `0.5`
  await page.keyboard.type("0.25 + ");
  await screen.save(FILE);
  const edited = project.text();
  assert.equal(edited, MODULE.replace("return 0.5", "return 0.25 + 0.5"));
  await screen.lens("Accept").click();
  await screen.said("Nothing was changed");
  await picture("said");
  await screen.save(FILE);
  assert.equal(project.text(), edited);

  step("undoing the edit: the proposal fits again");
  await screen.focus();
  for (let i = 0; i < 10 && project.text() !== MODULE; i++) {
    await page.keyboard.press("Control+Z");
    await screen.save(FILE);
  }
  assert.equal(project.text(), MODULE);
  await screen.lens("Accept").click();
  await screen.said("was accepted");
  await screen.save(FILE);
  assert.match(project.text(), /^# Optimized by STARK/m);
}
