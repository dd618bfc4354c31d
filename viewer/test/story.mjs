// The story in one minute, played in a browser and kept as pictures:  node story.mjs PROGRAM FOLDER
// A person opens `openwork serve` and sees the built-in pair on its prompt; switches the strongest head off in both, and the answer
// is gone; switches it on again and opens the trace. Then the same three views on a phone and at night.
import { mkdirSync } from "node:fs";
import { drawn, launch, openPage, serve } from "./helpers.mjs";

const [program, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const server = await serve(program), browser = await launch(), start = Date.now();

const settled = async (page, selector) => { await drawn(page, selector); await page.waitForTimeout(700); };
const answers = async (page) => (await page.locator("article.answer .said").allTextContents()).map((text) => text.trim()).join("; ");
const say = async (page, what) => console.log(`${((Date.now() - start) / 1000).toFixed(1)} s  ${what}: ${await answers(page)}`);

const steps = {
  async heads(page) {
    await page.waitForFunction(() => document.querySelector(".rail .head-name")?.textContent === "L5H6", null, { timeout: 240_000 });
    await page.waitForSelector(".shell .chip small:not(:empty)", { timeout: 240_000 });
    await settled(page, ".grid-canvas");
    await say(page, "both models on the prompt");
  },
  async circuit(page) {
    await page.locator("#tab-circuit").click();
    await page.waitForFunction(() => /help/.test(document.querySelector("#view-circuit .reading").textContent), null, { timeout: 240_000 });
    await page.locator("#view-circuit button", { hasText: "strongest off" }).click();
    await page.waitForSelector("article.answer .before");
    await page.waitForFunction(() => document.querySelector("#view-circuit .said-of").textContent, null, { timeout: 240_000 });
    await settled(page, "#view-circuit canvas:last-of-type");
    await say(page, "the strongest head off in both");
  },
  async trace(page) {
    await page.locator("#view-circuit button", { hasText: "all on" }).click();
    await page.locator("#tab-trace").click();
    await settled(page, "#view-trace canvas");
    await say(page, "the answer traced");
  },
};

for (const [name, options] of [["", {}], ["-night", { colorScheme: "dark" }], ["-phone", { viewport: { width: 400, height: 860 } }]]) {
  const { page, close } = await openPage(browser, server.address + "/", options);
  for (const [view, play] of Object.entries(steps)) {
    await play(page);
    await page.evaluate(() => scrollTo(0, 0));
    await page.screenshot({ path: `${folder}/viewer-${view}${name}.png`, fullPage: name === "-phone" });
  }
  await close();
}
await browser.close();
await server.stop();
