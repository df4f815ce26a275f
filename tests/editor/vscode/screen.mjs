// What a user sees and does in VS Code.

import assert from "node:assert/strict";

/** A run on the small module takes some 20 s on an idle machine of two cores. */
const RUN_MS = 420_000;

export class Screen {
  constructor(page) {
    this.page = page;
  }

  // --- what is seen ---

  lens(title) {
    return this.page.locator(".codelens-decoration a", { hasText: title }).first();
  }

  /** All lenses, in their order. */
  async lenses() {
    return (await this.page.locator(".codelens-decoration a").allInnerTexts()).map((text) => text.trim());
  }

  /** A message that is on the screen now, with its buttons. */
  toast(text) {
    return this.page.locator(".notification-toast, .notifications-center .notification-list-item", { hasText: text }).first();
  }

  /** The lines that a plan is about. */
  get plan() {
    return this.page.locator(".squiggly-info").first();
  }

  get diff() {
    return this.page.locator(".monaco-diff-editor");
  }

  tab(name) {
    return this.page.locator(".tab.active", { hasText: name });
  }

  /** All messages that were shown since the window was loaded. */
  messages() {
    return this.page.evaluate(() => window.stark.messages);
  }

  /** Wait until a message was shown, and return it; it may be gone again. */
  async said(text, timeout = 60_000) {
    const pattern = text instanceof RegExp ? text : new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    try {
      const handle = await this.page.waitForFunction(
        ([source, flags]) => window.stark.messages.find((message) => new RegExp(source, flags).test(message)),
        [pattern.source, pattern.flags],
        { timeout, polling: 100 },
      );
      return await handle.jsonValue();
    } catch (error) {
      assert.fail(`no message ${pattern} was shown, but:\n  ${(await this.messages()).join("\n  ")}\n${error.message}`);
    }
  }

  /** The text of the editor that has the focus, as far as it is on the screen. */
  async visibleText() {
    const lines = await this.page.locator(".editor-instance .view-line").allInnerTexts();
    return lines.join("\n").replaceAll("\u00a0", " ");
  }

  /** What the user did since the window was loaded. */
  effort() {
    return this.page.evaluate(() => ({ clicks: window.stark.clicks, keys: window.stark.keys }));
  }

  // --- what is done ---

  /** Wait until the caret is on the line of `text` that begins so. */
  async caretAt(text, beginning) {
    const line = text.split("\n").findIndex((each) => each.startsWith(beginning)) + 1;
    await this.page.locator(".statusbar-item", { hasText: `Ln ${line}, Col` }).waitFor();
  }

  /** Run a command of the palette by its title; false if the palette does not have it. */
  async command(title) {
    await this.page.keyboard.press("F1");
    await this.page.locator(".quick-input-widget input").fill(`>${title}`);
    await this.page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first().waitFor();
    await this.page.keyboard.press("Enter");
    // It goes away, or shows what the command asks.
    await this.page.waitForFunction(() => {
      const input = document.querySelector(".quick-input-widget input");
      return input === null || input.offsetParent === null || !input.value.startsWith(">");
    });
  }

  async openFile(name) {
    await this.page.keyboard.press("Control+P");
    await this.page.locator(".quick-input-widget input").fill(name);
    await this.page.locator(".quick-input-list .monaco-list-row", { hasText: name }).first().waitFor();
    await this.page.keyboard.press("Enter");
    await this.tab(name).waitFor();
  }

  /** Put the cursor into the editor. */
  async focus() {
    await this.command("View: Focus Active Editor Group");
  }

  /** Put the cursor at a line and column, both from 1. */
  async goTo(line, column) {
    await this.page.keyboard.press("Control+G");
    await this.page.locator(".quick-input-widget input").fill(`:${line}:${column}`);
    await this.page.keyboard.press("Enter");
    await this.page.locator(".quick-input-widget input").waitFor({ state: "hidden" });
  }

  /** Rename a file in the explorer. */
  async rename(name, to) {
    await this.command("File: Focus on Files Explorer");
    await this.page.locator(".explorer-folders-view .monaco-list-row", { hasText: name }).click();
    await this.page.keyboard.press("F2");
    const box = this.page.locator(".explorer-folders-view .monaco-inputbox input");
    await box.fill(to);
    await this.page.keyboard.press("Enter");
    await box.waitFor({ state: "detached" });
  }

  /** Turn the mouse's wheel until a line is in the upper half of the editor. */
  async scrollTo(text) {
    const line = this.page.locator(".editor-instance .view-line", { hasText: text }).first();
    await this.page.mouse.move(600, 400);
    for (let turn = 0; turn < 200; turn++) {
      const box = (await line.count()) > 0 ? await line.boundingBox() : null;
      if (box !== null && box.y < 300) {
        break;
      }
      await this.page.mouse.wheel(0, 120);
      await this.page.waitForTimeout(30);
    }
    await line.waitFor();
  }

  /** Move the mouse over a plan's line, and return what is shown there. */
  async hoverPlan() {
    const box = await this.plan.boundingBox();
    await this.page.mouse.move(box.x + 10, box.y - 60);
    await this.page.mouse.move(box.x + Math.min(box.width / 2, 100), box.y + box.height / 2, { steps: 10 });
    const hover = this.page.locator(".monaco-hover:visible", { hasText: "Attempts" }).first();
    await hover.waitFor();
    return hover;
  }

  async save(name) {
    await this.page.keyboard.press("Control+S");
    await this.page.locator(".tab.active:not(.dirty)", { hasText: name }).waitFor();
  }

  async clearMessages() {
    await this.command("Notifications: Clear All Notifications");
  }

  /** Answer the question that VS Code asks in the middle of the top. */
  async answer(question, text) {
    const box = this.page.locator(".quick-input-widget", { hasText: question });
    await box.waitFor();
    await box.locator("input").fill(text);
    await this.page.keyboard.press("Enter");
  }

  async reload() {
    // Listened for before it is asked for: it may be there before the palette is gone.
    await Promise.all([this.page.waitForEvent("load"), this.command("Developer: Reload Window").catch(() => undefined)]);
    await this.page.waitForSelector(".monaco-workbench");
  }

  // --- the parts of the flow that many scenarios begin with ---

  async ready() {
    await this.lens("Optimize with STARK").waitFor({ timeout: 120_000 });
  }

  /** Optimize, and wait until a proposal is offered. */
  async optimize() {
    await this.lens("Optimize with STARK").click();
    return this.offer();
  }

  async offer() {
    const message = await this.said(/as fast as eager|NewGELU: /, RUN_MS);
    assert.match(message, /as fast as eager/);
    await this.lens("Accept").waitFor();
    return message;
  }
}

/** Wait until something holds; what it throws counts as not yet. */
export async function until(what, holds, timeout = 30_000) {
  const end = Date.now() + timeout;
  for (;;) {
    let last;
    try {
      last = await holds();
      if (last) {
        return last;
      }
    } catch (error) {
      last = error.message;
    }
    assert.ok(Date.now() < end, `${what}: not within ${timeout / 1000} s (last: ${last})`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
