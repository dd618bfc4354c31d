// The same attention as a page of openwork, BertViz and CircuitsVis, opened from a file in the same browser: size, first paint, all
// heads drawn, memory.  node peers.mjs PAGES LIBRARIES [LAYERSxHEADSxTOKENS ...]
//   for s in "8 8 100" "8 8 500" "32 32 200"; do python scripts/peer_pages.py PAGES $s; done      (its own packages: see there)
//   npm i --prefix LIBRARIES requirejs@2.3.6 d3@5.7.0 jquery@2                             (what BertViz asks a CDN for)
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { embedPage } from "./embed.mjs";
import { dist, launch } from "./helpers.mjs";
import { gridDrawn, synthesise } from "./synthetic.mjs";

const [pages, libraries, ...sizes] = process.argv.slice(2);
const kLongest = 1000 * Number(process.env.PEERS_SECONDS ?? 600);   // then a page is given up

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
async function findRenderer(session) {
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  const all = processInfo.filter((one) => one.type === "renderer" && existsSync(`/proc/${one.id}/status`)).map(({ id, cpuTime }) =>
    ({ id, cpuTime, megabytes: Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1] ?? 0) / 1000 }));
  return all.reduce((most, one) => (one.megabytes > most.megabytes ? one : most), { id: 0, cpuTime: 0, megabytes: 0 });
}

// When all heads are drawn, and when the first paint was, which is told a little after it has happened.
async function waitForHeads(page, kind) {
  await page.waitForFunction(drawn[kind], null, { timeout: kLongest, polling: 50 });
  return page.evaluate(() => new Promise((done) => {
    const shown = performance.now();
    new PerformanceObserver((list) => done({ shown, paint: list.getEntriesByName("first-contentful-paint")[0]?.startTime ?? shown })).observe({ type: "paint", buffered: true });
  }));
}

// How the opening of a page ends: drawn, with its times; or not, and why.
function openAndWait(page, kind, file) {
  const crash = new Promise((done) => page.on("crash", () => done({ why: "the tab crashed" })));
  const late = new Promise((done) => setTimeout(() => done({ why: "not drawn" }), kLongest));
  page.goto(`file://${file}`, { timeout: 2 * kLongest, waitUntil: "commit" }).catch(() => {});
  return Promise.race([waitForHeads(page, kind.replace(/-.*/, "")).catch(() => late), crash, late]);
}

async function measure(kind, name) {
  const file = `${pages}/${kind}-${name}`;
  if (!existsSync(file)) return `${kind}, ${name}: no page`;
  const browser = await launch(), context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  await context.route(/^https:/, answer);
  const session = await browser.newBrowserCDPSession(), page = await context.newPage(), errors = new Set(), start = Date.now();
  page.on("pageerror", (error) => errors.add(error.message.slice(0, 80)));
  let now = { id: 0, cpuTime: 0, megabytes: 0 }, most = 0;
  const look = async () => { const seen = await findRenderer(session).catch(() => now); if (seen.id) now = seen; most = Math.max(most, now.megabytes); };
  const watch = setInterval(look, 1000), end = await openAndWait(page, kind, file), took = Date.now() - start;
  clearInterval(watch);
  await look();
  if (end.why && existsSync(`/proc/${now.id}`)) process.kill(now.id, "SIGKILL");   // it hears nothing else
  await browser.close();
  const seconds = (time) => `${(time / 1000).toFixed(1)} s`, size = `${(statSync(file).size / 1e6).toFixed(1)} MB`;
  const rest = `${now.megabytes.toFixed(0)} MB then, ${most.toFixed(0)} MB at most, ${now.cpuTime.toFixed(1)} s of a processor${[...errors].map((text) => `, said "${text}"`).join("")}`;
  return `${kind}, ${name}: ${size}, ` + (end.why ? `${end.why} after ${seconds(took)}, ${rest}` : `first paint ${seconds(end.paint)}, heads drawn ${seconds(end.shown)}, ${rest}`);
}

for (const size of sizes.length ? sizes : ["8x8x100", "8x8x500", "32x32x200"]) {
  const [layers, heads, tokens] = size.split("x").map(Number);
  const name = `${layers * heads}x${tokens}.html`;
  writeFileSync(`${pages}/openwork-${name}`, embedPage(dist, synthesise({ layers, heads, tokens, models: ["dense"] })));
  writeFileSync(`${pages}/openwork-every-pair-${name}`, embedPage(dist, synthesise({ layers, heads, tokens, cells: tokens, models: ["dense"] })));
  for (const kind of ["openwork", "openwork-every-pair", "circuitsvis", "bertviz"]) console.log(await measure(kind, name));
}
process.exit(0);
