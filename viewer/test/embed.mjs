// The page with its records inside, as one file: what `compare` writes around its findings. Script and style stand in the page, and
// the policy names the script by its hash.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

export function embedPage(dist, data) {
  const script = readFileSync(`${dist}/assets/index.js`, "utf8"), style = readFileSync(`${dist}/assets/index.css`, "utf8");
  const policy = `default-src 'none'; img-src data: blob:; style-src ${hash(style)}; script-src ${hash(script)}`;
  const inside = JSON.stringify(data).replaceAll("<", "\\u003c");
  return `<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n` +
    `<meta http-equiv="Content-Security-Policy" content="${policy}">\n<link rel="icon" href="data:,">\n<title>openwork</title>\n<style>${style}</style>\n</head>\n` +
    `<body>\n<div id="app"></div>\n<script type="application/json" id="openwork-data">${inside}</script>\n<script type="module">${script}</script>\n</body>\n</html>\n`;
}
