// One check of the page after the other: each says how it ended, and none stops the others.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

export const count = { passed: 0, failed: 0 };
export async function check(name, work) {
  const start = Date.now();
  try { await work(); ++count.passed; console.log(`ok   ${name} (${Date.now() - start} ms)`); }
  catch (reason) { ++count.failed; console.log(`FAIL ${name}\n${reason.stack}`); }
}

// How many colours a canvas shows, of a seventh of its pixels.
export const inked = (page, selector) => page.locator(selector).evaluate((canvas) => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, colours = new Set();
  for (let i = 0; i < data.length; i += 4 * 7) colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return colours.size;
});

// The canvas as text, once it has come to rest (two frames in a row are alike): equal where nothing has changed.
export const picture = (page, selector) => page.locator(selector).evaluate(async (canvas) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(canvas.toDataURL()), 50))));
  let last = await frame();
  for (let tries = 0; tries < 100; ++tries) {
    const next = await frame();
    if (next === last) break;
    last = next;
  }
  return last;
});

export async function exported(page, kind) {
  const [download] = await Promise.all([
    page.waitForEvent("download", { timeout: 120_000 }).catch(async () => { throw new Error(`no ${kind} of ${page.url()}: ${await page.locator(".shell > .waiting").textContent()}`); }),
    page.locator('select[aria-label="export this view"]').selectOption(kind),
  ]);
  return readFileSync(await download.path());
}

export async function checkSvg(page, svg, what) {
  assert.match(svg, /^<svg /, what);
  assert.equal(await page.evaluate((text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror")?.textContent ?? "", svg), "", what);
}
