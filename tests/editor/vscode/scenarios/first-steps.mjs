import assert from "node:assert/strict";
import { until } from "../screen.mjs";

export const about = "the first steps by the palette: a demo module, the doctor, a file judged against another, the chord";

// So that what a terminal shows can be read.
export const options = { settings: { "terminal.integrated.gpuAcceleration": "off" } };

export async function run({ page, screen, project, step, picture }) {
  await screen.ready();
  const terminal = () => page.locator(".terminal-wrapper .xterm-rows").last().innerText();

  step("the doctor");
  await screen.command("STARK: Doctor: check what optimizing needs");
  await until("the doctor's word", async () => /Ready.to.optimize/.test(await terminal()), 60_000);
  await picture("1-doctor");
  await screen.command("View: Hide Panel");

  step("a file is judged against the class of another one");
  await screen.openFile("gelu.py");
  await screen.command("STARK: Judge this file against…");
  const box = page.locator(".quick-input-widget", { hasText: "Judge gelu.py against" });
  await box.waitFor();
  await box.locator("input").fill(project.path());
  await page.keyboard.press("Enter");
  await until("a verdict", async () => /ModelNew|eager/.test(await terminal()), 120_000);
  await picture("2-judged");
  await screen.command("View: Hide Panel");

  step("the demo module");
  await screen.command("STARK: Create a demo module");
  await screen.tab("stark_demo.py").waitFor();
  await screen.lens("Optimize with STARK").waitFor();
  assert.match(project.text("stark_demo.py"), /class Model\(nn\.Module\)/);

  step("the chord");
  await screen.focus();
  await page.keyboard.press("Control+K");
  await page.keyboard.press("Control+G");
  await screen.lens("stop").waitFor({ timeout: 60_000 });
  await screen.command("STARK: Cancel run");
  await screen.said("was cancelled");
}
