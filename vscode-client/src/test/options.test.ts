import assert from "node:assert/strict";
import { test } from "node:test";
import { collectSettings, commandOptions, SERVER_SETTINGS } from "../common/options";

test("dotted names become nested objects and empty values are left out", () => {
  const values: Record<string, unknown> = {
    interpreter: "~/p",
    device: "cpu",
    timeLimit: null,
    promptsDirectory: "",
    "search.epsilon": 0,
    "search.policy": "greedy",
    compileBaseline: false,
  };
  assert.deepEqual(
    collectSettings((name) => values[name], (path) => path.replace("~", "/home/ada")),
    {
      interpreter: "/home/ada/p",
      device: "cpu",
      compileBaseline: false,
      search: { epsilon: 0, policy: "greedy" },
    },
  );
});

test("the server is told its settings but not the client's own", () => {
  assert.ok(SERVER_SETTINGS.includes("interpreter"));
  assert.ok(SERVER_SETTINGS.includes("search.epsilon"));
  assert.ok(!SERVER_SETTINGS.some((name) => name.startsWith("server.") || name.startsWith("trace.")));
});

test("the terminal's commands are told the settings that they know", () => {
  const settings = { interpreter: "/p", isolation: "strict", compileBaseline: false, seed: 1 };
  assert.deepEqual(commandOptions(settings, ["interpreter", "device", "isolation", "compileBaseline"]), [
    ...["--python", "/p"],
    ...["--isolation", "strict"],
    ...["--baselines", "eager"],
  ]);
  assert.deepEqual(commandOptions({ compileBaseline: true }, ["interpreter", "compileBaseline"]), []);
});
