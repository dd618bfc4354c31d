// The views, in any home of the page: what they show, and what a hand does in them.
import assert from "node:assert/strict";
import { check, checkSvg, exported, inked, picture } from "./check.mjs";
import { drawn, pointAt } from "./helpers.mjs";

// What every home of the page must show, served or in a file: `open` gives a page at a view's address, `kind` names the screenshots.
export async function seeViews(page, kind, out) {
  const shot = (name) => page.screenshot({ path: `${out}/${name}.png` });
  await check(`${kind}: every head has a name, and the sparse side is emptier`, async () => {
    await drawn(page, ".grid-canvas");
    assert.equal(await page.locator("#view-heads .unseen button").count(), 64);
    assert.match(await page.locator('#view-heads .unseen button[data-head="L5H6"]').textContent(), /^L5H6: openwork-8m .*; openwork-8m-sparse /);
    const [dark, light] = await page.locator(".grid-canvas").evaluate((canvas) => {
      const context = canvas.getContext("2d"), half = Math.floor(canvas.width / 2);
      return [0, half].map((left) => {
        const data = context.getImageData(left, 0, half, canvas.height).data;
        let inkedPixels = 0;
        for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0 && data[i] < 235) ++inkedPixels;
        return inkedPixels;
      });
    });
    assert.ok(light < 0.75 * dark, `ink ${dark} and ${light}`);
    await shot(`${kind}-heads`);
  });
  await check(`${kind}: classes filter the grid`, async () => {
    await page.waitForSelector(".shell .chip small:not(:empty)", { timeout: 240_000 });  // the classes are counted
    await page.locator(".shell .chip", { hasText: "induction" }).click();
    const left = await page.locator("#view-heads .unseen button").count();
    assert.ok(left > 0 && left < 16, `${left} heads`);
    assert.match(page.url(), /classes=induction/);
    await page.locator(".shell .chip", { hasText: "induction" }).click();
    assert.equal(await page.locator("#view-heads .unseen button").count(), 64);
  });
  await check(`${kind}: a search opens a head, and the key its large view`, async () => {
    await page.locator('#view-heads input[type="search"]').fill("L6H3");
    assert.equal(await page.locator(".rail .head-name").textContent(), "L6H3");
    await page.locator('#view-heads input[type="search"]').fill("");
    await page.locator('#view-heads input[type="search"]').press("Escape");
    await page.keyboard.press("Enter");
    await drawn(page, "#view-head canvas");
    assert.equal(await page.locator("#view-head .head-name").textContent(), "L6H3");
    assert.match(page.url(), /#head\?.*head=L6H3/);
    await shot(`${kind}-head`);
  });
  await check(`${kind}: pointing at a pair of tokens lights both up along the prompt`, async () => {
    await pointAt(page, "#view-head canvas", 100, 300, ".tokens li.lit");
    assert.match(await page.locator("#view-head .reading").textContent(), /←.*openwork-8m \d/);
    await page.mouse.move(5, 5);
    await page.waitForFunction(() => !document.querySelector(".tokens li.lit"));
  });
  for (const view of ["lens", "scatter", "statistics", "next", "trace"]) {
    await check(`${kind}: ${view} is drawn`, async () => {
      await page.locator(`#tab-${view}`).click();
      if (view === "statistics") await page.waitForSelector("#view-statistics tr[data-head]", { timeout: 240_000 });
      else if (view === "next") await page.waitForSelector("#view-next .bars li");
      else { await drawn(page, `#view-${view} canvas`); assert.ok(await inked(page, `#view-${view} canvas`) > 6); }
      await page.waitForTimeout(100);
      await shot(`${kind}-${view}`);
    });
  }
  await check(`${kind}: the table is sorted by a click`, async () => {
    await page.locator("#tab-statistics").click();
    const firsts = () => page.locator("#view-statistics tr[data-head]").first().getAttribute("data-head");
    assert.equal(await firsts(), "L0H0");
    await page.locator("#view-statistics th button", { hasText: /^peak/ }).click();
    const column = await page.locator('#view-statistics .tall th[aria-sort="descending"]').evaluate((heading) => [...heading.parentElement.children].indexOf(heading));
    const values = await page.locator("#view-statistics tr[data-head]").evaluateAll((rows, at) => rows.map((row) => parseFloat(row.children[at].textContent)), column);
    assert.deepEqual(values, [...values].sort((a, b) => b - a));
  });
}

// Points over the trace where something stands: the answer's own box first, at the upper right of the first panel.
async function findNode(page) {
  const canvas = page.locator("#view-trace canvas");
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox(), reading = page.locator("#view-trace .reading");
  for (let y = box.y + 30; y < box.y + box.height; y += 9) {
    for (let x = box.x + box.width / 2 - 22; x > box.x + box.width / 4; x -= 11) {
      await page.mouse.move(x, y);
      if (/influence/.test(await reading.textContent())) return { x, y, said: await reading.textContent() };
    }
  }
  throw new Error("no node was found in the trace");
}

async function handleTrace(page, kind) {
  const canvas = "#view-trace canvas", tables = page.locator("#view-trace table.pinned");
  await page.locator("#tab-trace").click();
  await drawn(page, canvas);
  await page.mouse.move(2, 2);
  const whole = await picture(page, canvas), node = await findNode(page);
  await check(`${kind}: a click pins a node of the trace and lists its links, another lets it go`, async () => {
    await page.mouse.click(node.x, node.y);
    await tables.waitFor();
    assert.match(page.url(), /pins=/);
    assert.ok(await tables.locator("tr").count() > 0);
    assert.match(await tables.locator(".chip").first().textContent(), /^L\d+H\d+ \d+ %$/);
    await page.mouse.click(node.x, node.y);
    await page.waitForFunction(() => !document.querySelector("#view-trace table.pinned"));
  });
  await check(`${kind}: the wheel zooms about the pointer`, async () => {
    await page.mouse.wheel(0, -300);
    const zoomed = await picture(page, canvas);
    assert.notEqual(zoomed, whole);
    await page.mouse.move(node.x + 1, node.y);
    assert.equal(await page.locator("#view-trace .reading").textContent(), node.said, "the same node lies there");
  });
  await check(`${kind}: dragging moves the graph and pins nothing; the whole graph comes back`, async () => {
    const before = await picture(page, canvas);
    await page.mouse.down();
    await page.mouse.move(node.x - 60, node.y + 40, { steps: 5 });
    await page.mouse.up();
    assert.notEqual(await picture(page, canvas), before);
    assert.equal(await tables.count(), 0);
    await page.locator("#view-trace button", { hasText: "whole graph" }).click();
    await page.mouse.move(2, 2);
    assert.equal(await picture(page, canvas), whole);
  });
  await check(`${kind}: nodes are drawn one by one, and together again`, async () => {
    await page.locator("#view-trace input[type=checkbox]").uncheck();
    assert.match(page.url(), /group=no/);
    assert.notEqual(await picture(page, canvas), whole);
    await page.locator("#view-trace input[type=checkbox]").check();
    assert.equal(await picture(page, canvas), whole);
  });
}

async function handleScatter(page, kind) {
  await check(`${kind}: a rectangle in the scatter matrix picks pairs, along the prompt too; a press lets them go`, async () => {
    await page.locator("#tab-scatter").click();
    const canvas = page.locator("#view-scatter canvas");
    await drawn(page, "#view-scatter canvas");
    const plain = await picture(page, "#view-scatter canvas");
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox(), heads = (await page.locator("#view-scatter input").inputValue()).split(",").length;
    // the panel of the second head against the first (views/scatter.ts, layout)
    const panel = Math.min(130, ((box.width - 30) / 2 - 22) / heads), x = box.x + 22, y = box.y + 24 + panel;
    await page.mouse.move(x + 4, y + 4);
    await page.mouse.down();
    await page.mouse.move(x + panel - 6, y + panel - 6, { steps: 4 });
    await page.mouse.up();
    assert.match(await page.locator("#view-scatter .reading").textContent(), /^[1-9]\d* pairs: .* ← /);
    assert.ok(await page.locator(".tokens li.lit").count() > 0);
    assert.notEqual(await picture(page, "#view-scatter canvas"), plain);
    await page.mouse.click(x + 2.5 * panel, y);
    assert.match(await page.locator("#view-scatter .reading").textContent(), /^Draw a rectangle/);
    assert.equal(await page.locator(".tokens li.lit").count(), 0);
  });
}

async function handleKeys(page, kind) {
  await check(`${kind}: keys open views, step through heads, weigh, darken, and say what they do`, async () => {
    await page.locator("#tab-heads").click();
    await page.locator(".shell .tabs").hover();
    const chosen = () => page.locator('.shell [role=tab][aria-selected="true"]').getAttribute("id");
    for (const [key, view] of [["2", "head"], ["5", "lens"], ["6", "next"], ["1", "heads"]]) {
      await page.keyboard.press(key);
      assert.equal(await chosen(), `tab-${view}`);
    }
    const head = () => page.locator(".rail .head-name").textContent(), first = await head();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
    assert.notEqual(await head(), first);
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowUp");
    assert.equal(await head(), first);
    await page.keyboard.press("v");
    assert.match(page.url(), /weights=value/);
    await page.keyboard.press("v");
    assert.doesNotMatch(page.url(), /weights=/);
    await page.evaluate(() => document.activeElement.blur());   // else Enter is the button's own
    await page.keyboard.press("Enter");
    assert.equal(await chosen(), "tab-head");
    await page.keyboard.press("Escape");
    assert.equal(await chosen(), "tab-heads");
    await page.keyboard.press("f");
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "search a head");
    await page.keyboard.press("Escape");
    const dark = () => page.evaluate(() => document.querySelector(".shell").classList.contains("dark")), was = await dark();
    await page.keyboard.press("d");
    assert.equal(await dark(), !was);
    await page.keyboard.press("d");
    await page.keyboard.press("?");
    await page.waitForSelector("dialog.help[open]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog.help[open]", { state: "detached" }).catch(() => {});
    assert.equal(await page.locator("dialog.help[open]").count(), 0);
  });
}

export async function handleViews(page, kind) {
  await handleTrace(page, kind);
  await handleScatter(page, kind);
  await handleKeys(page, kind);
}

// Every view as a drawing, a picture and its records. A page may save ten files in a row, so `open` gives a fresh one now and then.
export async function exportViews(open, kind) {
  await check(`${kind}: every view leaves as SVG, PNG and JSON`, async () => {
    for (const views of [["heads", "head", "lens"], ["scatter", "statistics", "next"], ["trace", "circuit"]]) {
      const { page, close } = await open();
      for (const view of views) {
        await page.locator(`#tab-${view}`).click();
        if (view === "statistics") await page.waitForSelector("#view-statistics tr[data-head]", { timeout: 240_000 });
        else if (view !== "next") await drawn(page, `#view-${view} canvas`);
        await checkSvg(page, (await exported(page, "svg")).toString(), view);
        assert.equal((await exported(page, "png")).subarray(1, 4).toString(), "PNG", view);
        assert.ok(Object.keys(JSON.parse((await exported(page, "json")).toString())).length > 0, view);
      }
      await close();
    }
  });
}
