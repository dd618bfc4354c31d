// What the tests, the story and the bench share: the browser, the server, and pages that note whatever goes wrong in them.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const dist = fileURLToPath(new URL("../dist", import.meta.url));

export const skip = (why) => { console.log(`viewer: Skipped\n${why}\n\n[  SKIPPED ] 1 test`); process.exit(77); };

export async function launch(...args) {
  const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
  if (!executablePath) skip("no Chromium here");
  const { chromium } = await import("playwright-core").catch(() => skip("no playwright-core here: npm ci in viewer/"));
  return chromium.launch({ executablePath, args: ["--no-sandbox", ...args] });
}

// `openwork serve` on a free port; its address is the line it prints.
export async function serve(program, ...options) {
  const server = spawn(program, ["serve", "--port", "0", "--threads", "1", ...options], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const address = await new Promise((done, fail) => {
    const read = (chunk) => { said += chunk; const found = /http:\/\/[^\s]+/.exec(said); if (found) done(found[0]); };
    server.stdout.on("data", read);
    server.stderr.on("data", read);
    server.on("exit", (code) => fail(new Error(`openwork serve ended with ${code}: ${said}`)));
    setTimeout(() => fail(new Error(`openwork serve printed no address: ${said}`)), 240_000).unref();
  });
  const stop = () => new Promise((done) => { server.removeAllListeners("exit"); server.on("exit", done); server.kill("SIGTERM"); });
  return { address: address.replace(/\/$/, ""), stop };
}

// With VIEWER_DIST=FOLDER the served page's files come from there, so that a change of the page is tried before the program has it.
const kTypes = { html: "text/html", js: "text/javascript", css: "text/css" };
function serveFrom(folder, context, home) {
  return context.route((url) => url.origin === home && /^\/(assets\/|$)/.test(url.pathname), (route) => {
    const name = new URL(route.request().url()).pathname.slice(1) || "index.html";
    return route.fulfill({ contentType: kTypes[name.split(".").pop()], body: readFileSync(`${folder}/${name}`) });
  });
}

// A page, and in `said` every word in its console, error, dialog, and request that leaves its own place.
export async function openPage(browser, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage(), said = [], home = address.split("#")[0].replace(/\/$/, "");
  page.on("console", (message) => { if (!/willReadFrequently/.test(message.text())) said.push(message.text()); });  // the test's own readings
  page.on("pageerror", (error) => said.push(error.message));
  page.on("dialog", (dialog) => { said.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => { if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(home)) said.push(`asked ${request.url()}`); });
  if (process.env.VIEWER_DIST && home.startsWith("http")) await serveFrom(process.env.VIEWER_DIST, context, home);
  await page.goto(address);
  await page.waitForSelector("article.answer");
  return { page, said, close: () => context.close() };
}

// The pointer over a place of a drawing until the page shows `answer`: what is still loading may move the drawing from under a first try.
export async function pointAt(page, selector, x, y, answer) {
  for (let tries = 0; ; ++tries) {
    await page.locator(selector).scrollIntoViewIfNeeded();
    const box = await page.locator(selector).boundingBox();
    await page.mouse.move(box.x + x - 1, box.y + y);
    await page.mouse.move(box.x + x, box.y + y);
    const seen = await page.waitForSelector(answer, { timeout: 1000 }).catch((late) => { if (tries === 29) throw late; });
    if (seen) return;
  }
}

// Until a canvas has been drawn on.
export const drawn = (page, selector) => page.waitForFunction((at) => {
  const canvas = document.querySelector(at);
  if (!canvas || canvas.height < 40) return false;
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return data.some((value, i) => i % 4 === 3 && value > 0);
}, selector, { timeout: 240_000 });
