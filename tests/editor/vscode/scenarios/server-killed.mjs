import assert from "node:assert/strict";
import { FILE } from "../project.mjs";
import { until } from "../screen.mjs";

export const about = "the server is killed: it is started again, and the offer is back";

export const options = { offer: true };

export async function run({ page, screen, project, step, picture, servers }) {
  await screen.offer();
  await screen.clearMessages();
  const [before] = servers();
  step(`kill -9 ${before.pid}`);
  process.kill(before.pid, "SIGKILL");
  await until("another server runs", () => servers().some(({ pid }) => pid !== before.pid));
  await screen.lens("Accept").waitFor();
  await screen.plan.waitFor();
  await picture("back");
  step("accepting");
  await screen.lens("Accept").click();
  await screen.said("was accepted");
  await screen.save(FILE);
  assert.match(project.text(), /^# Optimized by STARK/m);
}
