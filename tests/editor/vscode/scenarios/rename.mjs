import assert from "node:assert/strict";
import { FILE } from "../project.mjs";

export const about = "the file is renamed while an offer is open: the offer goes with it";

export const options = { offer: true };

export async function run({ page, screen, project, step, picture }) {
  await screen.offer();
  step("renaming in the explorer");
  await screen.rename(FILE, "blocks.py");
  await screen.tab("blocks.py").waitFor();
  await screen.lens("Accept").waitFor();
  await screen.plan.waitFor();
  await picture("renamed");
  step("and back, and once more");
  await screen.rename("blocks.py", FILE);
  await screen.tab(FILE).waitFor();
  await screen.lens("Accept").waitFor();
  await screen.rename(FILE, "blocks.py");
  await screen.tab("blocks.py").waitFor();
  await screen.lens("Accept").click();
  await screen.said("was accepted");
  await screen.save("blocks.py");
  assert.match(project.text("blocks.py"), /^# Optimized by STARK/m);
  assert.throws(() => project.text(FILE), /ENOENT/, "the old file must not come back");
}
