import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { MODULE } from "../project.mjs";

export const about = "the module in the cells of a notebook: optimized from the cell of the class, and accepted there";

const NOTEBOOK = "try.ipynb";

export async function run({ page, screen, project, step, picture }) {
  const at = MODULE.indexOf("class");
  const behind = MODULE.indexOf("def get_inputs");
  const texts = [`%matplotlib inline\n${MODULE.slice(0, at)}`, MODULE.slice(at, behind), MODULE.slice(behind)];
  const cells = texts.map((text, i) => ({
    cell_type: "code",
    id: `cell${i}`,
    execution_count: null,
    metadata: {},
    outputs: [],
    source: text.trim().split(/(?<=\n)/),
  }));
  const metadata = { language_info: { name: "python" } };
  writeFileSync(project.path(NOTEBOOK), JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }));
  await screen.ready();
  step("opening the notebook");
  await screen.command("View: Close All Editors");
  await page.locator(".explorer-folders-view .monaco-list-row", { hasText: NOTEBOOK }).dblclick();
  await screen.ready();
  await picture("cells");
  step("optimizing, by the keyboard");
  await page.locator(".cell .view-line", { hasText: "class NewGELU" }).click();
  await page.keyboard.press("Control+K");
  await page.keyboard.press("Control+G");
  await screen.offer();
  await screen.plan.waitFor();
  await picture("offer");
  step("accepting");
  await screen.lens("Accept").click();
  await screen.said("was accepted");
  await screen.save(NOTEBOOK);
  const saved = JSON.parse(project.text(NOTEBOOK)).cells.map((cell) => cell.source.join(""));
  assert.match(saved[0], /^%matplotlib inline\n[^]*import ctypes[^]*import torch\n/);
  assert.match(saved[1], /^class NewGELU\(nn.Module\)[^]*\nclass NewGELUNew\(nn.Module\)/);
  assert.equal(saved[2], texts[2].trim());
}
