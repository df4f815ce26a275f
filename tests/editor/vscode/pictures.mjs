// Pictures in a light and in a dark theme, and what has to be true of them.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";

/** Mean brightness from 0 to 255, and how many colours there are. */
async function look(probe, png) {
  return probe.evaluate(async (data) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, bitmap.width, bitmap.height).data.buffer);
    let sum = 0;
    for (const pixel of pixels) {
      sum += (pixel & 255) + ((pixel >> 8) & 255) + ((pixel >> 16) & 255);
    }
    return { brightness: sum / 3 / pixels.length, colours: new Set(pixels).size };
  }, png.toString("base64"));
}

/**
 * Take a picture of a page in each theme, and check that it shows something and that its ground is light or dark.
 *
 * With `window.autoDetectColorScheme` the editor follows the system, so nothing is typed or clicked: what has the focus
 * keeps it, and hovers stay.
 *
 * @param fileOf where a picture goes, undefined for nowhere
 */
export async function inBothThemes(page, fileOf) {
  const probe = await page.context().newPage();
  await page.bringToFront();
  try {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(500); // the colours of tokens come last
      const png = await page.screenshot({ animations: "disabled", fullPage: true });
      const file = fileOf(colorScheme);
      if (file !== undefined) {
        writeFileSync(file, png);
      }
      const { brightness, colours } = await look(probe, png);
      const told = `${colorScheme}: brightness ${brightness.toFixed()}, ${colours} colours`;
      assert.ok(colorScheme === "light" ? brightness > 190 : brightness < 70, told);
      assert.ok(colours > 100, told);
    }
  } finally {
    await probe.close();
  }
}
