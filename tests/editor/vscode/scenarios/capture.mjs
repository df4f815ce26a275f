import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { FILE, MODULE } from "../project.mjs";

export const about = "inputs from a run of the user's script, from the palette: without a script it says what to type, else it asks which";

const SCRIPT = `import torch

from gelu import NewGELU

if __name__ == "__main__":
    model = NewGELU()
    for _ in range(8):
        model(torch.randn(3, 5, 7))
`;

const COMMAND = "STARK: Capture inputs of the class at the cursor from a run";

export async function run({ screen, project, step, picture }) {
  await screen.ready();
  await screen.focus();
  await screen.goTo(11, 1); // in the class
  step("no script uses the class");
  await screen.command(COMMAND);
  assert.match(await screen.said("run the script that uses NewGELU"), /stark-lsp capture SCRIPT\.py --class \S*gelu\.py::NewGELU/);

  step("one script does");
  writeFileSync(project.path("train.py"), SCRIPT);
  await screen.focus();
  await screen.command(COMMAND);
  await screen.said("run which script to see what NewGELU is called with");
  await picture("asked");
  await screen.toast("run which script").getByRole("button", { name: "train.py" }).click();
  const message = await screen.said(/The inputs of NewGELU are in \S+\.toml/, 120_000);
  step(message);
  const [, table] = /are in (\S+\.toml)/.exec(message);
  assert.match(project.text(table), /3, ?5, ?7/);
  assert.equal(project.text(FILE), MODULE, "the script and its inputs leave the module alone");
}
