// Bundles the extension into out/extension.js and the language client into out/languageclient.js, or with --tests each
// src/test/*.test.ts into out/test/.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import * as esbuild from "esbuild";

const has = (flag) => process.argv.includes(flag);

const common = {
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  loader: { ".py": "text" },
  logLevel: "info",
};

/** What is imported while running stays a file of its own, so that activation need not read it. */
const apart = {
  name: "apart",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^vscode-languageclient\// }, ({ kind }) =>
      kind === "dynamic-import" ? { path: "./languageclient.js", external: true } : undefined,
    ),
};

if (has("--tests")) {
  const tests = readdirSync("src/test").filter((name) => name.endsWith(".test.ts"));
  // Outside of an editor there is no `vscode`: what the tests need of it is in a file of theirs.
  const alias = { vscode: "./src/test/editor.ts" };
  await esbuild.build({ ...common, alias, entryPoints: tests.map((name) => `src/test/${name}`), outdir: "out/test" });
} else {
  const options = {
    ...common,
    entryPoints: { extension: "src/extension.ts", languageclient: "vscode-languageclient/node.js" },
    outdir: "out",
    external: ["vscode"],
    plugins: [apart],
    supported: { "dynamic-import": false }, // `require`: an import would find no names in what is bundled
    minify: has("--production"),
    sourcemap: has("--production") ? false : "linked",
  };
  if (has("--watch")) {
    await (await esbuild.context(options)).watch();
  } else {
    const { metafile } = await esbuild.build({ ...options, metafile: true });
    writeFileSync("out/THIRD_PARTY_LICENSES.txt", licenses(Object.keys(metafile.inputs)));
  }
}

/** The licenses of the packages that went into the bundle. */
function licenses(inputs) {
  const folder = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/;
  const packages = new Set(inputs.map((input) => folder.exec(input)?.[0]).filter(Boolean));
  const texts = [...packages].sort().map((path) => {
    const { name, version, license } = JSON.parse(readFileSync(`${path}/package.json`, "utf8"));
    const file = readdirSync(path).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file === undefined ? "" : readFileSync(`${path}/${file}`, "utf8").trim();
    return `${name} ${version} (${license})\n\n${text}\n`;
  });
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}
