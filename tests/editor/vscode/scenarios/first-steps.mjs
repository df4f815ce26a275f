import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { until } from "../screen.mjs";

export const about = "the first steps: the walkthrough with its demo module, the doctor, a file judged against another, the chord";

// So that what a terminal shows can be read.
export const options = { settings: { "terminal.integrated.gpuAcceleration": "off" } };

const CANDIDATE = `import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x, approximate="tanh")
`;

export async function run({ page, screen, project, step, picture }) {
  writeFileSync(project.path("fast.py"), CANDIDATE);
  await screen.ready();
  const terminal = async () => (await page.locator(".terminal-wrapper .xterm-rows").last().innerText()).replaceAll("\u00a0", " ");
  /** What the palette has of ours. */
  const palette = async () => {
    await page.keyboard.press("F1");
    await page.locator(".quick-input-widget input").fill(">STARK: ");
    await page.locator(".quick-input-list .monaco-list-row", { hasText: "STARK: Open report" }).waitFor();
    const shown = await page.locator(".quick-input-list .monaco-list-row").allInnerTexts();
    await page.keyboard.press("Escape");
    return shown.join("\n");
  };

  step("the palette has what can be done now");
  const offered = await palette();
  assert.match(offered, /Doctor/);
  assert.match(offered, /Judge this file against…/);
  assert.doesNotMatch(offered, /Cancel run|Pause run|Tell the agents|Change the budget|Accept|Next candidate|Open candidate/);

  step("the walkthrough");
  await screen.command("View: Toggle Primary Side Bar Visibility");
  await screen.command("Welcome: Open Walkthrough...");
  await page.locator(".quick-input-list .monaco-list-row", { hasText: "Optimize a PyTorch module" }).waitFor();
  await page.locator(".quick-input-widget input").fill("Optimize a PyTorch");
  await page.keyboard.press("Enter");
  const steps = page.locator(".getting-started-step");
  await steps.first().waitFor();
  await steps.filter({ hasText: "Take a module of yours" }).click();
  const create = page.locator(".getting-started-step.expanded").getByRole("button", { name: "Create a demo module" });
  await create.waitFor();
  const settled = () => page.waitForTimeout(1500); // the page draws itself anew, and takes the focus from the palette
  await settled();
  await picture("1-walkthrough-light");
  await screen.command("Preferences: Toggle between Light/Dark Themes");
  await settled();
  await picture("1-walkthrough-dark");
  await screen.command("Preferences: Toggle between Light/Dark Themes");
  await settled();

  step("its demo module");
  await create.click();
  await screen.tab("stark_demo.py").waitFor();
  await screen.ready();
  await screen.caretAt(project.text("stark_demo.py"), "class Model(nn.Module)");

  step("the chord");
  await screen.focus();
  await page.keyboard.press("Control+K");
  await page.keyboard.press("Control+G");
  await screen.lens("stop").waitFor({ timeout: 60_000 });
  assert.match(await palette(), /Cancel run/);
  await screen.command("STARK: Cancel run");
  await screen.said("was cancelled");

  step("the doctor");
  await screen.command("STARK: Doctor: check what optimizing needs");
  await until("the doctor's word", async () => /Ready to optimize/.test(await terminal()), 60_000);
  await picture("2-doctor");
  await screen.command("View: Hide Panel");

  step("a file is judged against the class of another one");
  await screen.openFile("fast.py");
  await screen.command("STARK: Judge this file against…");
  const files = page.locator(".quick-input-widget", { hasText: "Judge fast.py against" });
  await files.locator(".monaco-list-row", { hasText: "gelu.py" }).waitFor();
  await screen.answer("Judge fast.py against", project.path());
  // What was refused or wrong is never timed.
  await until("a verdict", async () => /verify [\d.]+ s, time [\d.]+ s, profile/.test(await terminal()), 120_000);
  await picture("3-judged");
}
