// Starts a real VS Code (code-server) on a folder and opens it in Chromium.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import path from "node:path";

const CHROMIUM_FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Plain surroundings: nothing on the screen but the file and what STARK adds. */
const SETTINGS = {
  "workbench.colorTheme": "Default Dark Modern",
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.activityBar.location": "hidden",
  "workbench.layoutControl.enabled": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.editor.enablePreview": false,
  "window.commandCenter": false,
  "window.menuBarVisibility": "hidden",
  "chat.commandCenter.enabled": false,
  "breadcrumbs.enabled": false,
  "diffEditor.renderSideBySide": true,
  "diffEditor.codeLens": false,
  "diffEditor.hideUnchangedRegions.enabled": false,
  "editor.fontFamily": "'JetBrains Mono', 'DejaVu Sans Mono', monospace",
  "editor.fontLigatures": false,
  "editor.fontSize": 14,
  "editor.lineHeight": 21,
  "editor.minimap.enabled": false,
  "editor.stickyScroll.enabled": false,
  "editor.hover.delay": 200,
  "editor.hover.above": false,
  "editor.occurrencesHighlight": "off",
  "editor.renderLineHighlight": "none",
  "editor.guides.indentation": false,
  "files.autoSave": "off",
  "git.enabled": false,
  "extensions.ignoreRecommendations": true,
  "extensions.autoCheckUpdates": false,
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
};

/** Fonts for the pictures, where they are installed (Debian: fonts-inter, fonts-jetbrains-mono). */
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include>/etc/fonts/fonts.conf</include>
  <match target="pattern">
    <test qual="any" name="family"><string>sans-serif</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit>
  </match>
  <match target="pattern">
    <test qual="any" name="family"><string>system-ui</string></test>
    <edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit>
  </match>
</fontconfig>
`;

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

/** Command lines of all processes below one. */
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
      return readFileSync(`/proc/${candidate}/cmdline`, "utf8").replaceAll("\0", " ").trim();
    } catch {
      return "";
    }
  });
}

/**
 * @param home folder made by setup.sh
 * @param scratch an empty folder for user data and extensions
 * @param folder what to open
 * @param vsix the packed extension
 * @param settings further user settings
 * @param environment further environment variables of the editor and what it starts
 */
export async function openWorkbench({ home, scratch, folder, vsix, settings, environment }) {
  const userData = path.join(scratch, "user-data");
  const extensions = path.join(scratch, "extensions");
  mkdirSync(path.join(userData, "User"), { recursive: true });
  mkdirSync(extensions);
  writeFileSync(path.join(userData, "User", "settings.json"), JSON.stringify({ ...SETTINGS, ...settings }, null, 2));

  const entry = path.join(home, "node_modules", "code-server", "out", "node", "entry.js");
  const config = path.join(scratch, "config.yaml");
  writeFileSync(config, "");
  const common = ["--config", config, "--user-data-dir", userData, "--extensions-dir", extensions];
  const env = { ...process.env, ...environment };
  const installed = spawnSync("node", [entry, ...common, "--install-extension", vsix], { env, encoding: "utf8" });
  if (installed.status !== 0) {
    throw new Error(`the extension could not be installed:\n${installed.stdout}${installed.stderr}`);
  }

  const port = await freePort();
  const server = spawn(
    "node",
    [
      entry,
      ...common,
      ...["--auth", "none", "--bind-addr", `127.0.0.1:${port}`],
      ...["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"],
      folder,
    ],
    { env, stdio: ["ignore", "pipe", "pipe"], detached: true },
  );
  let log = "";
  server.stdout.on("data", (data) => (log += data));
  server.stderr.on("data", (data) => (log += data));
  const address = `http://127.0.0.1:${port}/`;
  for (let attempt = 0; ; attempt++) {
    try {
      await fetch(`${address}healthz`);
      break;
    } catch {
      if (attempt > 200 || server.exitCode !== null) {
        throw new Error(`code-server does not answer:\n${log}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  const { chromium } = createRequire(path.join(home, "package.json"))("playwright-core");
  const fonts = path.join(scratch, "fonts.conf");
  writeFileSync(fonts, FONTS);
  const browser = await chromium.launch({
    env: { ...process.env, FONTCONFIG_FILE: fonts },
    executablePath: process.env.STARK_CHROMIUM ?? "/usr/bin/chromium",
    args: CHROMIUM_FLAGS,
  });
  const context = await browser.newContext({
    viewport: { width: 1180, height: 740 },
    deviceScaleFactor: 1.5,
    colorScheme: "dark",
  });
  const page = await context.newPage();
  await page.goto(`${address}?folder=${encodeURIComponent(folder)}`);
  await page.waitForSelector(".monaco-workbench", { timeout: 60_000 });

  return {
    page,
    pid: server.pid,
    log: () => log,
    close: async () => {
      await browser.close();
      try {
        process.kill(-server.pid, "SIGTERM");
      } catch {
        // It has ended already.
      }
    },
  };
}
