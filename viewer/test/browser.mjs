// The page in a real browser: Debian's Chromium driven by Playwright, over the real `openwork serve`; then the same views in the
// page that `compare` writes, from a file with the network off. Called by ctest as  node browser.mjs PROGRAM OUT ; screenshots are left in OUT.
// Ends with 77 (skipped) where there is no browser or no Playwright.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { check, checkSvg, count, exported } from "./check.mjs";
import { drawn, launch, openPage, serve } from "./helpers.mjs";
import { checkPhone, checkPhonePage } from "./phone.mjs";
import { exportViews, handleViews, seeViews } from "./views.mjs";

const [program, out] = process.argv.slice(2);
const kPrompt = "One, two, three, four. One, two, three,";   // openwork-8m says " four"
const kMarkup = "<img src=x onerror=alert(1)> <b>John</b> went";
const kMetrics = (step) => JSON.stringify({ step, tokens: step * 16384, loss: 3 + 1 / step, average_loss: 3 + 1 / step, target: 3, kept_edges: 1 / step, open_heads: 60 }) + "\n";
const models = fileURLToPath(new URL("../../models", import.meta.url));

const probability = async (page, model) =>
  parseFloat(await page.locator(`article.answer[data-model="${model}"] .probability`).textContent());
const shot = (page, name) => page.screenshot({ path: `${out}/${name}.png` });
const plainText = async (page) => assert.equal(await page.locator(".shell :is(img, b, script)").count(), 0);

const probe = spawnSync(program, ["serve", "--help"]);
assert.equal(probe.status, 0, `openwork serve does not start: ${probe.stderr}`);
mkdirSync(`${out}/run`, { recursive: true });
writeFileSync(`${out}/run/metrics.jsonl`, Array.from({ length: 40 }, (_, n) => kMetrics(n + 1)).join(""));
rmSync(`${out}/frontier`, { recursive: true, force: true });
const browser = await launch(), server = await serve(program, "--run", `${out}/run`);
try {
  const live = await openPage(browser, server.address + "/"), { page } = live;
  await seeViews(page, "served", out);
  await handleViews(page, "served");
  await check("a run's curves grow while it trains", async () => {
    await page.locator("#tab-training").click();
    await drawn(page, "#view-training canvas");
    assert.match(await page.locator("#view-training .said-of").textContent(), /step 40,.*training/);
    appendFileSync(`${out}/run/metrics.jsonl`, kMetrics(41));
    await page.waitForFunction(() => /step 41,/.test(document.querySelector("#view-training .said-of").textContent), null, { timeout: 120_000 });
    await shot(page, "served-training");
  });
  await check("a typed prompt is computed: four", async () => {
    await page.locator("#tab-heads").click();
    await page.locator("#prompt").fill(kPrompt);
    const start = Date.now();
    await page.locator("#prompt").press("Enter");
    await page.waitForFunction(() => document.querySelector('article.answer[data-model="openwork-8m"] strong')?.textContent === "·four", null, { timeout: 120_000 });
    console.log(`     a new prompt was answered in ${Date.now() - start} ms`);
    assert.deepEqual(await page.locator(".tokens li").allTextContents(), ["One", ",", "·two", ",", "·three", ",", "·four", ".", "·One", ",", "·two", ",", "·three", ","]);
  });
  await check("switching the strongest head off lowers the probability, and on again restores it", async () => {
    await page.locator("#tab-circuit").click();
    await drawn(page, "#view-circuit canvas");
    await page.waitForFunction(() => /help/.test(document.querySelector("#view-circuit .reading").textContent), null, { timeout: 240_000 });
    const before = await probability(page, "openwork-8m");
    await page.locator("#view-circuit button", { hasText: "strongest off" }).click();
    await page.waitForSelector("article.answer .before");
    assert.ok(await probability(page, "openwork-8m") < 0.8 * before);
    assert.match(page.url(), /off\.openwork-8m=L\d+H\d+/);
    await shot(page, "served-circuit-off");
    await page.locator("#view-circuit button", { hasText: "all on" }).click();
    await page.waitForFunction(() => !document.querySelector("article.answer .before"));
    assert.equal(await probability(page, "openwork-8m"), before);
  });
  await check("a head is switched off by a click on it", async () => {
    const box = await page.locator("#view-circuit canvas").first().boundingBox();
    await page.mouse.click(box.x + 26 + 10, box.y + 26 + 10);
    await page.waitForFunction(() => document.querySelector(".off-list")?.textContent.includes("L0H0"));
    await page.keyboard.press("a");
    await page.waitForFunction(() => !document.querySelector(".off-list"));
  });
  await check("an address opens the view it came from", async () => {
    const again = await openPage(browser, `${server.address}/#head?head=L5H6&off.openwork-8m=L5H6&weights=value`);
    await again.page.waitForSelector("article.answer .before");
    assert.equal(await again.page.locator("#view-head .head-name").textContent(), "L5H6");
    assert.ok(await again.page.locator("#view-head input[type=checkbox]").isChecked());
    assert.deepEqual(again.said, []);
    await again.close();
  });
  await check("addresses hold filters, heads, tables, prompts, nodes and heads that are off", async () => {
    const go = async (hash) => { await page.evaluate((to) => { location.hash = to; }, hash); };
    await go("#heads?classes=induction&order=strength&head=L5H6");
    await page.waitForFunction(() => document.querySelectorAll("#view-heads .unseen button").length < 16);
    assert.equal(await page.locator('select[aria-label="order of heads"]').inputValue(), "strength");
    await go("#scatter?scatter=L5H6,L6H0,L7H1");
    await page.waitForFunction(() => document.querySelector("#view-scatter input")?.value === "L5H6, L6H0, L7H1");
    await go("#statistics?sort=-peak&table=change");
    await page.waitForSelector('#view-statistics .tall th[aria-sort="descending"]');
    assert.equal(await page.locator('#view-statistics select[aria-label="model"]').inputValue(), "change");
    await go(`#next?prompt=${encodeURIComponent(kPrompt)}&off.openwork-8m=L5H6`);
    await page.waitForFunction(() => document.querySelector("#view-next")?.textContent.includes("without 1 head;"));
    assert.equal(await page.locator("#prompt").inputValue(), kPrompt);
    await go("#heads");
    await page.waitForFunction((prompt) => document.querySelector("#prompt").value !== prompt, kPrompt);
    assert.equal(await page.locator(".off-list").count(), 0);
  });
  await check("markup in a prompt stays text", async () => {
    await page.locator("#tab-heads").click();
    await page.locator("#prompt").fill(kMarkup);
    await page.locator("#prompt").press("Enter");
    await page.waitForFunction(() => [...document.querySelectorAll(".tokens li")].some((token) => token.textContent.includes("John")));
    for (const view of ["head", "lens", "circuit", "trace", "next"]) { await page.locator(`#tab-${view}`).click(); await page.waitForTimeout(300); }
    await plainText(page);
  });
  await check("what the server refuses is said in the page", async () => {
    await page.locator("#prompt").fill("word ".repeat(3000));
    await page.locator("#prompt").press("Enter");
    await page.waitForSelector(".waiting.bad");
    assert.ok((await page.locator(".waiting.bad").first().textContent()).length > 10);
  });
  await check("the console is silent and nothing is asked elsewhere", async () => {
    // a refused prompt is a 400, which the browser itself notes
    assert.deepEqual(live.said.filter((text) => !/status of 400/.test(text)), []);
  });
  await live.close();
  await exportViews(() => openPage(browser, server.address + "/"), "served");
  for (const [name, options] of [["dark", { colorScheme: "dark" }], ["phone", { viewport: { width: 400, height: 860 } }]]) {
    await check(`${name}: the first view`, async () => {
      const other = await openPage(browser, server.address + "/", options);
      await drawn(other.page, ".grid-canvas");
      if (name === "dark") assert.equal(await other.page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(19, 21, 24)");
      else assert.ok(await other.page.evaluate(() => document.documentElement.scrollWidth <= 400), "no sideways scroll");
      await shot(other.page, `served-${name}`);
      assert.deepEqual(other.said, []);
      await other.close();
    });
  }
  await checkPhone((options) => openPage(browser, server.address + "/", options), "served", out);
  await check("markup in a model's name stays text, and a frontier's points are one run", async () => {
    const named = `${out}/<b>bold<b> & 'quoted'`, frontier = `${out}/frontier`;
    rmSync(named, { force: true });
    symlinkSync(`${models}/openwork-8m-sparse`, named);
    mkdirSync(`${frontier}/control`, { recursive: true });
    writeFileSync(`${frontier}/control/metrics.jsonl`, [1, 2, 3].map(kMetrics).join(""));
    const other = await serve(program, named, "--run", frontier);
    try {
      const shown = await openPage(browser, other.address + "/");
      await drawn(shown.page, ".grid-canvas");
      assert.match(await shown.page.locator(".grid-titles h2").textContent(), /<b>bold<b> & 'quoted'/);
      for (const view of ["head", "next", "lens", "circuit", "scatter", "heads"]) { await shown.page.locator(`#tab-${view}`).click(); await shown.page.waitForTimeout(100); }
      await plainText(shown.page);
      await shown.page.locator("#tab-training").click();
      await shown.page.waitForFunction(() => /the dense control is trained first: step 3,/.test(document.querySelector("#view-training .said-of").textContent));
      for (const [point, loss, kept] of [[1, 3.5, 0.4], [2, 3.6, 0.1]]) {
        mkdirSync(`${frontier}/point-${point}`, { recursive: true });
        writeFileSync(`${frontier}/point-${point}/metrics.jsonl`, [1, 2, 3].map(kMetrics).join(""));
        writeFileSync(`${frontier}/point-${point}/result.json`, JSON.stringify({ nats_per_token: loss, kept_edges: kept, open_heads: 50 }));
      }
      await shown.page.waitForFunction(() => /point 2 of 2.*step 6,/.test(document.querySelector("#view-training .said-of").textContent));
      const records = JSON.parse((await exported(shown.page, "json")).toString());
      assert.deepEqual(records.frontier.map((point) => [point.kept_edges, point.held_out_loss]), [[0.4, 3.5], [0.1, 3.6]]);
      assert.equal(records.lines.length, 6);
      await shot(shown.page, "served-frontier");
      assert.deepEqual(shown.said, []);
      await shown.close();
    } finally { await other.stop(); }
  });
  writeFileSync(`${out}/prompts.txt`, "The cat sat on the mat and the cat slept.\nOne, two, three, one, two, three.\n");
  const made = spawnSync(program, ["compare", "--prompts", `${out}/prompts.txt`, "--task", "none", "--generate", "0", "--no-interactions", "--threads", "1",
    "--prompt", "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy", "--out", `${out}/report`], { encoding: "utf8" });
  await check("compare writes a page", async () => assert.equal(made.status, 0, made.stderr));
  const written = `${out}/report/index.html`, open = (hash = "") => openPage(browser, `file://${written}${hash}`, { offline: true });
  const compared = await open();
  await seeViews(compared.page, "compared", out);
  await handleViews(compared.page, "compared");
  await exportViews(open, "compared");
  await check("compared: an address opens the view it came from", async () => {
    const again = await open("#trace?group=no&head=L3H2");
    await drawn(again.page, "#view-trace canvas");
    assert.equal(await again.page.locator("#view-trace input[type=checkbox]").isChecked(), false);
    assert.equal(await again.page.locator(".rail .head-name").textContent(), "L3H2");
    await again.close();
  });
  await check("compared: the page is silent and asks for nothing", async () => assert.deepEqual(compared.said, []));
  await compared.close();
  const narrow = (options) => openPage(browser, `file://${written}`, { offline: true, ...options });
  await checkPhone(narrow, "compared", out);
  await checkPhonePage(narrow, out);
  await check("compared: markup in a model's name stays text", async () => {
    const [before, data, after] = readFileSync(written, "utf8").split(/(?<=id="openwork-data">)(.*)(?=<\/script>\n<script type="module")/s);
    writeFileSync(`${out}/report/markup.html`, before + data.replaceAll("openwork-8m-sparse", "\\u003cimg src=x onerror=alert(1)>") + after);
    const marked = await openPage(browser, `file://${out}/report/markup.html`, { offline: true });
    for (const view of ["head", "circuit", "trace", "lens", "next", "statistics", "scatter", "heads"]) {
      await marked.page.locator(`#tab-${view}`).click();
      await marked.page.waitForTimeout(100);
      await plainText(marked.page);
    }
    assert.match(await marked.page.locator(".grid-titles").textContent(), /<img src=x/);
    await checkSvg(marked.page, (await exported(marked.page, "svg")).toString(), "markup");
    assert.deepEqual(marked.said, []);
    await marked.close();
  });
} finally {
  await browser.close();
  await server.stop();
}
console.log(`[  PASSED  ] ${count.passed} tests.${count.failed ? ` ${count.failed} FAILED` : ""}`);
process.exit(count.failed ? 1 : 0);
