// How the page keeps up with large models: pages with synthetic patterns (every cell of every head), opened from a file in Chromium.
//   node bench.mjs OUT      prints page size, time to the first view, memory, and frames per second while the grid scrolls
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { embedPage } from "./embed.mjs";
import { dist, launch } from "./helpers.mjs";
import { gridDrawn, synthesise } from "./synthetic.mjs";

const out = process.argv[2];
mkdirSync(out, { recursive: true });

// Frames while the grid scrolls to its end and back in four seconds.
const scroll = () => new Promise((done) => {
  const grid = document.querySelector(".grid-scroll"), end = grid.scrollHeight - grid.clientHeight, start = performance.now(), times = [];
  let last = start;
  const step = (now) => {
    times.push(now - last);
    last = now;
    const share = (now - start) / 4000;
    if (share >= 1) { times.sort((a, b) => a - b); done({ frames: times.length / 4, slowest: times[Math.floor(times.length * 0.99)], rows: end }); return; }
    grid.scrollTop = end * (1 - Math.abs(1 - 2 * share));
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
});

const assets = ["index.html", "assets/index.js", "assets/index.css"].map((name) => readFileSync(`${dist}/${name}`));
console.log(`the page itself: ${assets.reduce((sum, file) => sum + file.length, 0)} bytes, ${assets.reduce((sum, file) => sum + gzipSync(file, { level: 9 }).length, 0)} compressed`);
const browser = await launch("--enable-precise-memory-info");
for (const [layers, heads, tokens] of [[8, 8, 500], [32, 32, 200], [32, 32, 500]]) {
  const file = `${out}/${layers * heads}x${tokens}.html`;
  writeFileSync(file, embedPage(dist, synthesise({ layers, heads, tokens })));
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const start = Date.now();
  await page.goto(`file://${file}`);
  await page.waitForFunction(gridDrawn, null, { polling: 20 });
  const first = Date.now() - start, memory = await page.evaluate(() => performance.memory.usedJSHeapSize);
  const moved = await page.evaluate(scroll);
  console.log(`2 x ${layers * heads} heads, ${tokens} tokens: ${(statSync(file).size / 1e6).toFixed(1)} MB, first view ${first} ms, heap ${(memory / 1e6).toFixed(0)} MB, ` +
    (moved.rows > 0 ? `${moved.frames.toFixed(0)} frames/s scrolling ${moved.rows} px (slowest of 100: ${moved.slowest.toFixed(0)} ms)` : "nothing to scroll"));
  await page.close();
}
await browser.close();
