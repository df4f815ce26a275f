// Starts a real VS Code (code-server) with the packed extension in a profile of its own, and opens it in Chromium.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";

/** Where setup.sh built the editor. */
export const HOME = process.env.STARK_VSCODE_HOME ?? path.join(os.homedir(), ".cache", "stark-vscode-test");
const ENTRY = path.join(HOME, "node_modules", "code-server", "out", "node", "entry.js");

const CHROMIUM_FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** What would let the surroundings of the test into the editor. */
const FOREIGN = /^(PYTHON|VIRTUAL_ENV|CONDA|STARK_|ANTHROPIC_|XDG_|VSCODE_|npm_)/;

/** Fonts for the pictures, where they are installed (Debian: fonts-inter, fonts-jetbrains-mono). */
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include>/etc/fonts/fonts.conf</include>
  ${prefer("sans-serif", "Inter")}
  ${prefer("system-ui", "Inter")}
  ${prefer("monospace", "JetBrains Mono")}
</fontconfig>
`;

function prefer(family, font) {
  return `<match target="pattern">
    <test qual="any" name="family"><string>${family}</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>${font}</string></edit>
  </match>`;
}

/** Runs in the page: counts what a user does there, and keeps every message that was shown, as toasts go away. */
function watchPage() {
  window.stark = { clicks: 0, keys: 0, messages: [] };
  addEventListener("pointerdown", (event) => (window.stark.clicks += event.isTrusted ? 1 : 0), true);
  addEventListener("keydown", (event) => (window.stark.keys += event.isTrusted ? 1 : 0), true);
  const look = () => {
    for (const element of document.querySelectorAll(".notification-list-item-message")) {
      const text = element.textContent.trim();
      if (text !== "" && window.stark.messages.at(-1) !== text) {
        window.stark.messages.push(text);
      }
    }
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
}

function editor(common, more, options) {
  return spawnSync("node", [ENTRY, ...common, ...more], { encoding: "utf8", ...options });
}

/** A free port of this machine. */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** All processes below one: their ids and command lines. */
export function descendants(pid) {
  const parents = new Map();
  for (const entry of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
      parents.set(Number(entry), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
    } catch {
      // It ended in between.
    }
  }
  const below = (candidate) => {
    for (let at = parents.get(candidate); at; at = parents.get(at)) {
      if (at === pid) {
        return true;
      }
    }
    return false;
  };
  return [...parents.keys()].filter(below).map((candidate) => {
    try {
      const command = readFileSync(`/proc/${candidate}/cmdline`, "utf8").replaceAll("\0", " ").trim();
      return { pid: candidate, command };
    } catch {
      return { pid: candidate, command: "" };
    }
  });
}

/** The environment of a machine on which nothing of ours was ever used. */
export function cleanEnvironment(home, more) {
  const kept = Object.entries(process.env).filter(([name]) => !FOREIGN.test(name));
  return { ...Object.fromEntries(kept), HOME: home, ...more };
}

/** Install the packed extension into an empty folder of extensions, by the command that a user types. */
export function install(vsix, extensions, home) {
  mkdirSync(extensions, { recursive: true });
  const config = path.join(home, "install.yaml");
  writeFileSync(config, "");
  const common = ["--config", config, "--user-data-dir", path.join(home, "install"), "--extensions-dir", extensions];
  const done = editor(common, ["--install-extension", vsix], { env: cleanEnvironment(home, {}) });
  assert.equal(done.status, 0, `the extension could not be installed:\n${done.stdout}${done.stderr}`);
}

/**
 * @param scratch an empty folder for the profile
 * @param folder what to open
 * @param file a file in it that is opened at the start
 * @param extensions folder with the extension, see `install`
 * @param settings user settings; undefined: the profile is empty
 * @param trusted false: the folder is not trusted, and the editor asks
 * @param environment further environment variables
 */
export async function openEditor({ scratch, folder, file, extensions, settings, trusted, environment }) {
  const userData = path.join(scratch, "user-data");
  const home = path.join(scratch, "home");
  mkdirSync(path.join(userData, "User"), { recursive: true });
  mkdirSync(home, { recursive: true });
  if (settings !== undefined) {
    writeFileSync(path.join(userData, "User", "settings.json"), JSON.stringify(settings, null, 2));
  }
  const own = path.join(scratch, "extensions");
  cpSync(extensions, own, { recursive: true });
  const config = path.join(scratch, "config.yaml");
  writeFileSync(config, "");

  const port = await freePort();
  const server = spawn(
    "node",
    [
      ENTRY,
      ...["--config", config, "--user-data-dir", userData, "--extensions-dir", own],
      ...["--auth", "none", "--bind-addr", `127.0.0.1:${port}`],
      ...["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"],
      ...(trusted ? ["--disable-workspace-trust"] : []),
      folder,
    ],
    { env: cleanEnvironment(home, environment), stdio: ["ignore", "pipe", "pipe"], detached: true },
  );
  let log = "";
  server.stdout.on("data", (data) => (log += data));
  server.stderr.on("data", (data) => (log += data));
  const stop = () => {
    try {
      // A process group of its own, so that nothing of it outlives the test.
      process.kill(-server.pid, "SIGTERM");
    } catch {
      // It has ended already.
    }
  };
  process.once("exit", stop);

  try {
    const address = `http://127.0.0.1:${port}/`;
    await answers(`${address}healthz`, () => server.exitCode === null);
    const { chromium } = createRequire(path.join(HOME, "package.json"))("playwright-core");
    const fonts = path.join(scratch, "fonts.conf");
    writeFileSync(fonts, FONTS);
    const browser = await chromium.launch({
      env: { ...process.env, FONTCONFIG_FILE: fonts },
      executablePath: process.env.STARK_CHROMIUM ?? "/usr/bin/chromium",
      args: CHROMIUM_FLAGS,
    });
    const context = await browser.newContext({
      viewport: { width: 1080, height: 680 },
      deviceScaleFactor: 1.5,
      colorScheme: "dark",
    });
    await context.addInitScript(watchPage);
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    // As `code FOLDER FILE` does.
    const payload = [["openFile", `vscode-remote://127.0.0.1:${port}${path.join(folder, file)}`]];
    const query = new URLSearchParams({ folder, payload: JSON.stringify(payload) });
    await page.goto(`${address}?${query}`);
    await page.waitForSelector(".monaco-workbench");
    return {
      page,
      pid: server.pid,
      log: () => log + channelOf(userData),
      close: async () => {
        await browser.close();
        stop();
      },
    };
  } catch (error) {
    stop();
    throw new Error(`${error.message}\n${log}`, { cause: error });
  }
}

/** What the extension wrote to its output channel. */
function channelOf(userData) {
  const logs = path.join(userData, "logs");
  if (!existsSync(logs)) {
    return "";
  }
  const files = readdirSync(logs, { recursive: true }).filter((name) => /STARK.*\.log$/.test(path.basename(name)));
  return files.map((name) => `\n--- ${name}\n${readFileSync(path.join(logs, name), "utf8")}`).join("");
}

async function answers(address, alive) {
  for (let attempt = 0; ; attempt++) {
    try {
      await fetch(address);
      return;
    } catch {
      if (attempt > 600 || !alive()) {
        throw new Error("code-server does not answer");
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
