import assert from "node:assert/strict";

export const about = "there is no compiler: one message within seconds, before anything is timed";

export const options = { compilers: false };

export async function run({ page, screen, step, picture }) {
  await screen.ready();
  const clicked = Date.now();
  await screen.lens("Optimize with STARK").click();
  const message = await screen.said(/compiler/, 60_000);
  step(`after ${((Date.now() - clicked) / 1000).toFixed(1)} s: ${message}`);
  await screen.toast(/compiler/).getByRole("button").first().waitFor();
  await picture("message");
  await page.waitForTimeout(2000);
  assert.equal((await screen.messages()).filter((text) => text.startsWith("STARK")).length, 1, "one message, not several");
  assert.deepEqual(await screen.lenses(), ["Optimize with STARK"]);
}
