import assert from "node:assert/strict";
import { until } from "../screen.mjs";

export const about = "the interpreter has no torch: one message within seconds, with buttons, and a mark in the file";

export const options = { torch: false };

export async function run({ page, screen, step, picture }) {
  await screen.ready();
  const clicked = Date.now();
  await screen.lens("Optimize with STARK").click();
  const message = await screen.said(/torch/, 20_000);
  step(`after ${((Date.now() - clicked) / 1000).toFixed(1)} s: ${message}`);
  const toast = screen.toast(/torch/);
  await toast.getByRole("button", { name: "Choose interpreter" }).waitFor();
  await toast.getByRole("button", { name: /Install torch/ }).waitFor();
  await picture("message");
  await page.locator(".squiggly-error, .squiggly-warning").first().waitFor();
  await page.waitForTimeout(2000);
  assert.equal((await screen.messages()).filter((text) => text.startsWith("STARK")).length, 1, "one message, not several");
  await until("the progress ended", async () => (await page.locator(".statusbar-item", { hasText: "optimizing" }).count()) === 0);
}
