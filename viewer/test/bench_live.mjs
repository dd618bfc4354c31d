// How soon the real server's page shows its first view, and a new prompt: on an idle server, and while it works on something long.
//   node bench_live.mjs PROGRAM
import { launch, serve } from "./helpers.mjs";

const [program] = process.argv.slice(2);
const kSentence = "It was a bright cold day in April, and the clocks were striking thirteen. ";   // about 20 tokens

// In the page, from the start of its navigation: when the grid has its first picture.
const watchGrid = () => {
  const look = () => {
    const canvas = document.querySelector(".grid-canvas");
    if (canvas && canvas.height > 40 && canvas.getContext("2d").getImageData(8, 8, 64, 1).data.some((value, n) => n % 4 === 3 && value > 0)) { window.firstView = performance.now(); return; }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
};

async function openAndTime(browser, address) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.addInitScript(watchGrid);
  const page = await context.newPage();
  await page.goto(address);
  await page.waitForFunction(() => window.firstView !== undefined);
  return { page, context, time: Math.round(await page.evaluate(() => window.firstView)) };
}

// From Enter until answers and grid are the new prompt's: the grid is drawn anew when its patterns have come.
const typePrompt = (page, prompt) => page.evaluate((text) => new Promise((done) => {
  const canvas = document.querySelector(".grid-canvas"), before = canvas.toDataURL(), field = document.querySelector("#prompt"), start = performance.now();
  field.value = text;
  field.form.requestSubmit();
  const look = () => {
    const words = [...document.querySelectorAll(".tokens li")].map((one) => one.textContent.replaceAll("·", " ")).join("");
    if (words === text && canvas.toDataURL() !== before) done({ time: Math.round(performance.now() - start), tokens: document.querySelectorAll(".tokens li").length });
    else requestAnimationFrame(look);
  };
  look();
}), prompt);

const post = (address, route, body) => fetch(address + route, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
const list = (times) => `${times.join(", ")} ms`;

const browser = await launch();
await (await browser.newPage()).goto("about:blank");   // the browser's own start is not the page's
const start = Date.now(), server = await serve(program), up = Date.now() - start;
const first = await openAndTime(browser, server.address);
console.log(`openwork serve: address after ${up} ms; opened at once: first view ${first.time} ms`);
await first.context.close();
const times = [];
for (let n = 0; n < 5; ++n) {
  const { context, time } = await openAndTime(browser, server.address);
  times.push(time);
  await context.close();
}
console.log(`first view, opened again: ${list(times)}`);

const { page } = await openAndTime(browser, server.address), prompts = [], busy = [], runs = [];
let tokens = 0;
for (let n = 0; n < 5; ++n) {
  const typed = await typePrompt(page, `${n + 1} ${kSentence}${kSentence}And then, as they had said, it was late and`);
  prompts.push(typed.time);
  tokens = typed.tokens;
}
console.log(`a new prompt of ${tokens} tokens, answers and both grids: ${list(prompts)}`);
await post(server.address, "/api/circuit", { task: "ioi" });
for (let n = 0; n < 5; ++n) {
  const began = Date.now();
  await (await post(server.address, "/api/run", { prompt: `${n + 1} of them. ${kSentence}` })).text();
  runs.push(Date.now() - began);
  busy.push((await typePrompt(page, `${n + 6} ${kSentence}${kSentence}And then, as they had said, it was late and`)).time);
}
console.log(`while a circuit is found: /api/run of a new prompt ${list(runs)}; typed in the page ${list(busy)}`);
await browser.close();
await server.stop();
