import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { MODULE } from "../project.mjs";
import { until } from "../screen.mjs";

export const about = "the view of runs: a stored run with its tree, what it has to read, a candidate accepted from there, and a live run";

export const options = { stored: true, settings: { "stark.attempts": 8, "window.autoDetectColorScheme": true } };

/** Seconds of a processor that these have used, to hundredths. */
function used(processes) {
  return processes.reduce((sum, { pid }) => {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [user, system] = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(11, 13).map(Number);
    return sum + (user + system) / 100;
  }, 0);
}

export async function run({ page, screen, project, step, picture, pictures, servers }) {
  await screen.ready();
  const view = page.locator(".pane-body .monaco-list", { has: page.locator("[role=treeitem]") }).last();
  const row = (text) => view.locator("[role=treeitem]", { hasText: text }).first();
  /** Choose from the context menu; an editor that opens meanwhile takes the menu away. */
  const menu = (text, entry) =>
    until(`${entry} is chosen`, async () => {
      await page.keyboard.press("Escape"); // a menu that is still open from a try before lies over the rows
      await row(text).click({ button: "right", timeout: 3000 });
      const found = page.locator(".monaco-menu .action-item", { hasText: entry }).first();
      await found.hover({ timeout: 3000 });
      await page.waitForTimeout(500); // a menu takes no click right after it opened
      await found.click({ timeout: 3000 });
      return true;
    });

  step("the lens of the open proposal, and the hover of its plan");
  await screen.lens("Accept").waitFor();
  const box = await screen.plan.boundingBox();
  await page.mouse.move(box.x + 60, box.y + box.height / 2, { steps: 10 });
  await page.locator(".monaco-hover:visible", { hasText: "One pass over memory" }).first().waitFor();
  await pictures("0-hover");
  await screen.clearMessages();

  step("the activity bar has the run");
  await page.locator(".activitybar .action-item a[aria-label='STARK']").click();
  await row("NewGELU").waitFor();
  await page.mouse.move(317, 400);
  await page.mouse.down();
  await page.mouse.move(440, 400, { steps: 5 });
  await page.mouse.up();
  await row("NewGELU").click();
  await page.keyboard.press("ArrowRight");
  await row("proposal").waitFor();
  assert.match(await row("proposal").getAttribute("aria-label"), /^1 15.0 ms, 2.00x, proposal, .+, code agent/);
  await row("did not compile").waitFor();
  await pictures("1-tree");

  step("a click opens the candidate, to be read only");
  await row("proposal").click();
  await page.locator(".tab.active", { hasText: /attempt \d\.py/ }).waitFor();
  await until("the candidate", async () => /import torch/.test(await screen.visibleText()));

  step("differences, verdict");
  await menu("proposal", "Compare with the original class");
  await page.locator(".tab.active", { hasText: "original ↔ attempt" }).waitFor();
  await screen.diff.waitFor();
  await page.locator(".monaco-diff-editor .view-lines", { hasText: "ModelNew" }).first().waitFor();
  await screen.clearMessages();
  await pictures("2-difference");
  await menu("proposal", "Show verdict");
  await page.locator(".tab.active", { hasText: "verdict.txt" }).waitFor();
  await until("the verdict", async () => /against eager/.test(await screen.visibleText()));

  step("the language status");
  await page.locator(".tab", { hasText: "gelu.py" }).click();
  const status = page.locator(".statusbar-item[id='status.languageStatus'] a");
  await status.hover();
  await page.locator(".monaco-hover .hover-language-status", { hasText: "STARK: 1 proposal to review" }).waitFor();
  await pictures("3-status");

  step("the page of the run, in a tab: for VS Code the server is on another machine here");
  await menu("NewGELU", "Open report");
  const tab = page.frameLocator("iframe.webview").frameLocator("iframe#active-frame");
  await tab.getByRole("heading", { name: "NewGELU" }).first().waitFor();
  await pictures("5-report");
  // What somebody asks who has seen nothing else: which won, by how much, how sure, against what, why, at what cost.
  const read = (await tab.locator("body").innerText()).replace(/\s+/g, " ");
  for (const answer of [
    /2\.00x as fast as eager/,
    /attempt 1 15\.0 ms \(14\.8–15\.2\) 2\.00x \(1\.96–2\.04\) 1\.50x \(1\.4/,
    /torch\.compile 20\.0 ms/,
    /One pass over memory/,
    /What it cost attempts 3/,
  ]) {
    assert.match(read, answer);
  }
  await page.keyboard.press("Control+F4");

  step("the view costs nothing while nothing goes on");
  await page.bringToFront();
  const before = used(servers());
  await page.waitForTimeout(5000);
  assert.ok(used(servers()) - before <= 0.05, "the server took more than 1 % of a core while nothing went on");

  step("review, and accept from the title bar");
  await menu("proposal", "Review");
  await screen.diff.waitFor();
  await page.locator(".editor-actions .action-label[aria-label^='Explain']").click();
  await page.locator(".tab", { hasText: "evidence.md" }).waitFor();
  await pictures("4-explained");
  assert.equal(project.text(), MODULE);
  await page.locator(".tab", { hasText: "NewGELU attempt" }).click();
  await page.locator(".editor-actions .action-label[aria-label^='Next candidate']").first().click();
  await page.locator(".tab.active", { hasText: "NewGELU attempt 3" }).waitFor();
  await until("one tab", async () => (await page.locator(".tab", { hasText: "NewGELU attempt" }).count()) === 1);
  await page.locator(".editor-actions .action-label", { hasText: "Accept" }).first().click();
  await screen.said("was accepted");
  await until("the run is accepted", async () => /accepted/.test(await row("NewGELU").getAttribute("aria-label")));

  step("a run of this window is live, and can be cancelled from there");
  await until("the lens is on the screen", async () => {
    await page.locator(".tab", { hasText: "gelu.py" }).click(); // the accepted class may be shown only now
    await page.keyboard.press("Control+Home");
    await page.waitForTimeout(500);
    return screen.lens("Optimize with STARK").isVisible();
  });
  await screen.lens("Optimize with STARK").click();
  await until("a second run", async () => (await view.locator("[role=treeitem][aria-level='1']").count()) === 2, 120_000);
  await row("running").waitFor({ timeout: 120_000 });
  // The new run stands first, and what is made from it below.
  await view.locator("[role=treeitem][data-index='1'][aria-level='2']").waitFor({ timeout: 300_000 });
  await picture("6-live");
  await menu("running", "Cancel");
  await screen.said("was cancelled");
  await row("stopped").waitFor();
}
