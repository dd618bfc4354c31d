// The same attention as a page of openwork, BertViz and CircuitsVis, opened from a file in the same browser: size, first paint, all
// heads drawn, memory.  node peers.mjs PAGES LIBRARIES [LAYERSxHEADSxTOKENS ...]
//   for s in "8 8 100" "8 8 500" "32 32 200"; do python scripts/peer_pages.py PAGES $s; done      (its own packages: see there)
//   npm i --prefix LIBRARIES requirejs@2.3.6 d3@5.7.0 jquery@2                             (what BertViz asks a CDN for)
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { embedPage } from "./embed.mjs";
import { dist, launch } from "./helpers.mjs";
import { gridDrawn, synthesise } from "./synthetic.mjs";

const [pages, libraries, ...sizes] = process.argv.slice(2);
const kLongest = 120_000;

// BertViz draws a small SVG per head, CircuitsVis a picture per head.
const drawn = {
  openwork: gridDrawn,
  bertviz: () => document.querySelectorAll("svg line").length > 0,
  circuitsvis: () => document.querySelectorAll("canvas, img").length > 0,
};

function answer(route) {
  const file = /require/.test(route.request().url()) ? "requirejs/require.js" : /jquery/.test(route.request().url()) ? "jquery/dist/jquery.min.js" : "d3/dist/d3.min.js";
  return route.fulfill({ contentType: "text/javascript", body: readFileSync(`${libraries}/node_modules/${file}`) });
}

// The page's own process: the renderer with the most memory; what it holds, and the processor time it took.
async function findRenderer(browser) {
  const session = await browser.newBrowserCDPSession(), { processInfo } = await session.send("SystemInfo.getProcessInfo");
  const all = processInfo.filter((one) => one.type === "renderer").map(({ id, cpuTime }) =>
    ({ id, cpuTime, megabytes: Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1] ?? 0) / 1000 }));
  return all.reduce((most, one) => (one.megabytes > most.megabytes ? one : most));
}

// When all heads are drawn, and when the first paint was, which is told a little after it has happened.
async function waitForHeads(page, kind) {
  await page.waitForFunction(drawn[kind], null, { timeout: kLongest, polling: 50 });
  return page.evaluate(() => new Promise((done) => {
    const shown = performance.now();
    new PerformanceObserver((list) => done({ shown, paint: list.getEntriesByName("first-contentful-paint")[0]?.startTime ?? shown })).observe({ type: "paint", buffered: true });
  }));
}

async function measure(kind, name) {
  const file = `${pages}/${kind}-${name}`;
  if (!existsSync(file)) return `${kind}, ${name}: no page`;
  const size = `${(statSync(file).size / 1e6).toFixed(1)} MB`, browser = await launch(), context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.route(/^https:/, answer);
  const page = await context.newPage();
  page.goto(`file://${file}`, { timeout: 2 * kLongest, waitUntil: "commit" }).catch(() => {});
  const late = new Promise((done) => setTimeout(() => done(null), kLongest));
  const times = await Promise.race([waitForHeads(page, kind.replace(/-.*/, "")).catch(() => null), late]), { id, megabytes, cpuTime } = await findRenderer(browser);
  if (!times) process.kill(id, "SIGKILL");   // it hears nothing else
  await browser.close();
  const seconds = (time) => `${(time / 1000).toFixed(1)} s`, rest = `${megabytes.toFixed(0)} MB, ${cpuTime.toFixed(1)} s of a processor`;
  return `${kind}, ${name}: ${size}, ` + (times ? `first paint ${seconds(times.paint)}, heads drawn ${seconds(times.shown)}, ${rest}` : `not drawn after ${seconds(kLongest)}, ${rest}`);
}

for (const size of sizes.length ? sizes : ["8x8x100", "8x8x500", "32x32x200"]) {
  const [layers, heads, tokens] = size.split("x").map(Number);
  const name = `${layers * heads}x${tokens}.html`;
  writeFileSync(`${pages}/openwork-${name}`, embedPage(dist, synthesise({ layers, heads, tokens, models: ["dense"] })));
  writeFileSync(`${pages}/openwork-every-pair-${name}`, embedPage(dist, synthesise({ layers, heads, tokens, cells: tokens, models: ["dense"] })));
  for (const kind of ["openwork", "openwork-every-pair", "circuitsvis", "bertviz"]) console.log(await measure(kind, name));
}
process.exit(0);
