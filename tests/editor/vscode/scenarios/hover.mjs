import assert from "node:assert/strict";

export const about = "from the keyboard: progress while the run goes on, then the plan with its attempts under the mouse";

export async function run({ page, screen, step, picture }) {
  await screen.ready();
  await screen.command("STARK: Optimize the class at the cursor");
  const progress = page.locator(".statusbar-item, .notification-toast", { hasText: "optimizing NewGELU" }).first();
  await progress.waitFor();
  const seen = new Set();
  const end = Date.now() + 420_000;
  while ((await screen.lens("Accept").count()) === 0 && Date.now() < end) {
    const texts = await page.locator(".statusbar-item", { hasText: "optimizing NewGELU" }).allInnerTexts();
    texts.forEach((text) => seen.add(text.trim()));
    await page.waitForTimeout(100);
  }
  step([...seen].join("\n            "));
  assert.ok([...seen].some((text) => /attempt \d of 2/i.test(text)), "the progress never said which attempt it is at");
  await screen.offer();

  step("hovering over an anchor");
  await screen.clearMessages();
  const hover = await screen.hoverPlan();
  const told = await hover.innerText();
  assert.match(told, /Attempts/);
  assert.match(told, /Measured on/);
  assert.match(told, /vs eager/);
  await picture("plan");
}
