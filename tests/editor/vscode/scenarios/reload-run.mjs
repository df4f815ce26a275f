import assert from "node:assert/strict";
import { until } from "../screen.mjs";

export const about = "the window is reloaded with a run going on: it is asked whether to go on, and no attempt is lost";

export const options = { settings: { "stark.attempts": 30 } };

export async function run({ page, screen, step, picture, servers }) {
  await screen.ready();
  await screen.lens("Optimize with STARK").click();
  const progress = page.locator(".statusbar-item", { hasText: "optimizing NewGELU" });
  await until("two attempts are judged", async () => /best .* vs eager/.test((await progress.allInnerTexts()).join()), 420_000);
  const [before] = servers();
  step("reloading the window");
  await screen.reload();
  await screen.said(/Go on\?/);
  await picture("question");
  await until("the server of the old window is gone", () => servers().every(({ pid }) => pid !== before.pid));
  await screen.toast(/Go on\?/).getByRole("button", { name: "Go on" }).click();
  const kept = await screen.said(/attempts? kept/);
  step(kept);
  assert.doesNotMatch(kept, /\b0 attempts/);
  await screen.command("STARK: Cancel run");
  await screen.said("was cancelled");
}
