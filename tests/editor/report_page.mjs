// Opens the page of a run in a real browser, in light and in dark, and tells as JSON what was seen.
//
//   node report_page.mjs HOME PAGE OUT      HOME has playwright-core and axe-core; OUT is a folder for screenshots

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [home, file, out] = process.argv.slice(2);
const require = createRequire(path.join(home, "package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const browser = await chromium.launch({
  executablePath: process.env.STARK_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
const told = { errors: [], requests: [], violations: {}, shown: [] };
try {
  for (const colorScheme of ["light", "dark"]) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme });
    page.on("console", (message) => told.errors.push(message.text()));
    page.on("pageerror", (error) => told.errors.push(String(error)));
    page.on("dialog", (dialog) => (told.errors.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
    page.on("request", (request) => told.requests.push(request.url()));
    const begun = Date.now();
    await page.goto(pathToFileURL(file).href);
    told.opened_ms = Date.now() - begun;
    await page.evaluate(axe);
    const found = await page.evaluate(() => window.axe.run());
    told.violations[colorScheme] = found.violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`);
    await page.screenshot({ path: path.join(out, `${colorScheme}.png`) });
    const visible = () => page.locator("article:visible").evaluateAll((all) => all.map((one) => one.id));
    told.shown.push(await visible());
    if (colorScheme === "light") {
      await page.locator("nav.tree a[href='#n2']").click();
      told.shown.push(await visible());
      // By keyboard: from the link of one attempt to the next one's.
      await page.locator("nav.tree a[href='#n2']").focus();
      await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
      told.shown.push(await visible());
      await page.goBack();
      told.shown.push(await visible());
      await page.locator("svg.plot a[href='#n1']").first().click();
      told.shown.push(await visible());
    }
    await page.close();
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(told));
