import assert from "node:assert/strict";
import { descendants } from "../editor.mjs";
import { MODULE } from "../project.mjs";
import { until } from "../screen.mjs";

export const about = "a cancelled run stops at once, leaves no process, and can go on later";

export const options = { settings: { "stark.attempts": 30 } };

export async function run({ screen, project, step, servers }) {
  await screen.ready();
  await screen.lens("Optimize with STARK").click();
  await screen.plan.waitFor({ timeout: 420_000 });
  const [server] = servers();
  assert.match((await screen.lenses()).join(), /stop/);
  step("cancelling");
  await screen.command("STARK: Cancel run");
  await screen.said("was cancelled", 5_000);
  await until("the processes of the run are gone", () => descendants(server.pid).length === 0, 5_000);
  assert.equal(project.text(), MODULE);
  await screen.ready();

  step("going on");
  await screen.lens("Optimize with STARK").click();
  await screen.said("goes on with the earlier run");
  await screen.command("STARK: Cancel run");
}
