// `stark-lsp` in VS Code's terminals: what messages of the server name works there, too.

import { chmod, mkdir, rename, writeFile } from "node:fs/promises";
import * as path from "node:path";
import type { Launch } from "./launch";

/**
 * Write a program `stark-lsp` that is the server's own.
 *
 * @param folder where to; it is made
 */
export async function writeProgram(folder: string, launch: Launch): Promise<void> {
  const words = [launch.command, ...launch.args.slice(0, launch.args.indexOf("serve"))];
  const line = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
  await mkdir(folder, { recursive: true });
  // In one step, as other windows do the same.
  const draft = path.join(folder, `.stark-lsp-${process.pid}`);
  await writeFile(draft, `#!/bin/sh\nexec ${line} "$@"\n`);
  await chmod(draft, 0o755);
  await rename(draft, path.join(folder, "stark-lsp"));
}
