// The page on a screen 400 pixels wide, by keyboard and by name: what is drawn small is enlarged, what is drawn on a canvas is in the
// document too, and nothing needs a pointer.
import assert from "node:assert/strict";
import { check, inked, picture } from "./check.mjs";
import { drawn } from "./helpers.mjs";

const kViews = ["heads", "head", "circuit", "trace", "lens", "next", "statistics", "scatter"];
const kPhone = { viewport: { width: 400, height: 860 } };

// Every text that is written on a canvas, with its place.
const recordTexts = () => {
  const plain = CanvasRenderingContext2D.prototype.fillText;
  window.texts = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const at = this.getTransform().transformPoint({ x, y });
    window.texts.push({ text, x: at.x, y: at.y, view: this.canvas.closest("section")?.id });
    return plain.call(this, text, x, y, ...rest);
  };
};

// What can be worked or looked at, and has no name for those who do not see it.
const nameless = () => [...document.querySelectorAll("button, select, input, textarea, canvas[role=img], img, dialog, [role=region]")].filter((one) => {
  const label = one.labels?.[0]?.textContent ?? "";
  return !(one.getAttribute("aria-label") || one.alt || one.textContent.trim() || label.trim());
}).map((one) => one.outerHTML.slice(0, 120));

async function openView(page, view) {
  await page.locator(`#tab-${view}`).click();
  if (view === "statistics") await page.waitForSelector("#view-statistics tr[data-head]", { timeout: 240_000 });
  else if (view === "next") await page.waitForSelector("#view-next .bars li");
  else await drawn(page, view === "heads" ? ".grid-canvas" : `#view-${view} canvas`);
  if (view === "circuit") await page.waitForSelector("#view-circuit .unseen button", { state: "attached", timeout: 240_000 });
}

async function enlarge(page, view) {
  const box = () => page.locator("dialog.enlarged canvas").boundingBox(), dialog = page.locator("dialog.enlarged");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("e");
  await dialog.waitFor();
  const first = await box();
  assert.ok(first.width >= 1000 && first.height > 60, `${view}: ${first.width} x ${first.height}`);
  assert.ok(await inked(page, "dialog.enlarged canvas") > 2, view);
  await page.keyboard.press("+");
  assert.ok((await box()).width > 1.4 * first.width, view);
  const seen = await dialog.boundingBox();
  assert.ok(seen.x >= 0 && seen.x + seen.width <= 400.5 && seen.height <= 860.5, "the dialog fits the screen and scrolls inside");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
}

async function checkViews(page, kind, out) {
  for (const view of kViews) {
    await check(`${kind}, 400 px: ${view} fits, is enlarged by a key, and everything has a name`, async () => {
      await openView(page, view);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 400), "no sideways scroll");
      await enlarge(page, view);
      assert.deepEqual(await page.evaluate(nameless), []);
      const tab = await page.locator(`#tab-${view}`).boundingBox();
      assert.ok(tab.x >= 0 && tab.x + tab.width <= 401, "the chosen tab is seen");
      await page.screenshot({ path: `${out}/${kind}-phone-${view}.png` });
    });
  }
}

async function checkKeyboard(page, kind) {
  await check(`${kind}, 400 px: a node of the trace is pinned, and the graph zoomed, without a pointer`, async () => {
    await openView(page, "trace");
    const node = page.locator("#view-trace .unseen button").first();
    assert.match(await node.textContent(), /: .*influence/);
    await node.focus();
    assert.match(await page.locator("#view-trace .reading").textContent(), /influence/);
    await page.keyboard.press("Enter");
    await page.locator("#view-trace table.pinned").waitFor();
    assert.equal(await node.getAttribute("aria-pressed"), "true");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => !document.querySelector("#view-trace table.pinned"));
    const shown = () => picture(page, "#view-trace canvas");
    await page.evaluate(() => document.activeElement.blur());
    const whole = await shown();
    await page.locator('#view-trace button[aria-label="zoom in"]').press("Enter");
    assert.ok(await shown() !== whole, "zoomed");
    await page.locator('#view-trace button[aria-label="zoom out"]').press("Enter");
    assert.ok(await shown() === whole, "the whole again");
  });
  await check(`${kind}, 400 px: names stand by their own models, wherever the drawing is scrolled to`, async () => {
    await openView(page, "scatter");
    await page.evaluate(() => { window.texts.length = 0; });
    await page.locator("#tab-heads").click();
    await openView(page, "scatter");
    await page.waitForTimeout(300);
    const places = (await page.evaluate(() => window.texts)).filter(({ text, view }) => view === "view-scatter" && text.startsWith("openwork-8m")), names = new Set(places.map(({ text }) => text));
    for (const name of names) assert.equal(new Set(places.filter(({ text }) => text === name).map(({ y }) => Math.round(y))).size, 1);
    assert.equal(new Set(places.map(({ y }) => Math.round(y))).size, 2, JSON.stringify(places));
    assert.ok(await page.locator("#view-scatter .unseen table").count() >= 2);
    await openView(page, "lens");
    await page.evaluate(() => { window.texts.length = 0; document.querySelector("#view-lens .sideways").scrollLeft = 300; });
    await page.waitForTimeout(300);
    const titles = (await page.evaluate(() => window.texts)).filter(({ text, view }) => view === "view-lens" && text.startsWith("openwork-8m"));
    assert.ok(titles.length >= 2 && titles.every(({ x }) => Math.round(x) === 300), JSON.stringify(titles));
  });
}

// The viewer, served or inside a page; `open` gives a page with these options.
export async function checkPhone(open, kind, out) {
  const { page, said, close } = await open(kPhone);
  await page.evaluate(recordTexts);
  await checkViews(page, kind, out);
  await checkKeyboard(page, kind);
  await check(`${kind}, 400 px: a head is switched off by key, in the list of heads by their effect`, async () => {
    await openView(page, "circuit");
    const head = page.locator("#view-circuit .unseen button").first();
    await head.focus();
    await page.keyboard.press("Space");
    await page.waitForSelector(".off-list");
    assert.equal(await head.getAttribute("aria-pressed"), "true");
    await page.keyboard.press("Space");
    await page.waitForFunction(() => !document.querySelector(".off-list"));
  });
  await check(`${kind}, 400 px: the console is silent`, async () => assert.deepEqual(said, []));
  await close();
}

// What `compare` writes around the viewer.
export async function checkPhonePage(open, out) {
  const { page, close } = await open(kPhone), dialog = page.locator("#large");
  await check("compared, 400 px: a chart is enlarged by key, and closed by one", async () => {
    const charts = page.locator("main figure:not(.head) > img");
    assert.ok(await charts.count() > 2);
    for (const chart of await charts.all()) assert.match(await chart.getAttribute("aria-label"), /^enlarge: .{10}/);
    await charts.first().focus();
    await page.keyboard.press("Enter");
    await dialog.waitFor();
    const width = async () => (await dialog.locator("img").boundingBox()).width, before = await width();
    assert.ok(before >= 1000, `${before}`);
    await dialog.locator('button[aria-label="larger"]').press("Enter");
    assert.ok(await width() > 1.4 * before);
    const seen = await dialog.boundingBox();
    assert.ok(seen.width <= 400.5 && seen.height <= 860.5);
    await page.screenshot({ path: `${out}/compared-phone-chart.png` });
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    assert.ok(await charts.first().evaluate((one) => one === document.activeElement), "the focus comes back");
  });
  await check("compared, 400 px: heads are reached, read and enlarged by key, one stop a sheet", async () => {
    const sheets = page.locator(".heads");
    for (const sheet of await sheets.all()) assert.equal(await sheet.locator("img[tabindex='0']").count(), 1);
    await sheets.first().locator("img[tabindex='0']").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    const head = await page.evaluate(() => document.activeElement.dataset.head);
    assert.equal(head, "L1H1");
    assert.match(await page.locator("#reading").textContent(), /L1H1: .*mass/);
    await page.keyboard.press("Enter");
    await dialog.waitFor();
    assert.ok((await dialog.locator("img").first().boundingBox()).width > 300, "wider than half the screen");
    await page.screenshot({ path: `${out}/compared-phone-head.png` });
    await page.keyboard.press("Escape");
  });
  await check("compared, 400 px: a table is sorted by key, and everything has a name", async () => {
    const heading = page.locator("table.sortable th").nth(1);
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
    await heading.locator("button").press("Enter");
    assert.equal(await heading.getAttribute("aria-sort"), "descending");
    assert.deepEqual(await page.evaluate(nameless), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 400), "no sideways scroll");
    const nav = await page.locator("body > nav").boundingBox();
    assert.ok(nav.height < 60, `the sections take ${nav.height} pixels of the screen`);
  });
  await close();
}
