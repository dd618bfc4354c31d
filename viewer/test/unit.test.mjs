// The page's pure functions, without a browser: `npm test` compiles src/ to build/viewer-js and runs this.
import assert from "node:assert/strict";
import { test } from "node:test";

const compiled = process.env.VIEWER_JS ? `file://${process.env.VIEWER_JS}` : new URL("../../build/viewer-js", import.meta.url).href;
const load = (name) => import(`${compiled}/${name}.js`);
const { encodeLink, decodeLink } = await load("link");
const { startState, Store } = await load("state");
const { decodePatterns } = await load("data/tensor");
const { matches, openEmbedded } = await load("data/embedded");
const { NotHere, remember } = await load("data/backend");
const { openServer } = await load("data/server");
const { poolStrongest } = await load("draw/bitmaps");
const { placeGrid, hitGrid } = await load("draw/head_grid");
const { Axes, ticksOf } = await load("draw/chart");
const { SvgSurface } = await load("draw/surface");
const { gather, headShares } = await load("draw/trace_graph");
const { sizeOf } = await load("views/circuit");
const { pairOf } = await load("views/scatter");
const { sortRows } = await load("views/statistics");
const { curveOf, follow } = await load("views/training");
const { countHeads, markToken, percent } = await load("ui/dom");

// Bytes of the binary format: heads by causal entries.
function tensor(heads, rows, scale, dtype = "u8") {
  const cells = (Math.sqrt(8 * rows[0].length + 1) - 1) / 2;
  const header = { model: "m", weights: "attention", tokens: cells, cells, dtype, shape: [heads.length, rows[0].length], heads, scale };
  let text = JSON.stringify(header);
  while ((8 + text.length) % 8) text += " ";
  const data = dtype === "u8" ? Uint8Array.from(rows.flat()) : new Uint8Array(Float32Array.from(rows.flat()).buffer);
  const out = new Uint8Array(8 + text.length + data.length);
  out.set(new TextEncoder().encode("OWT1"));
  new DataView(out.buffer).setUint32(4, text.length, true);
  out.set(new TextEncoder().encode(text), 8);
  out.set(data, 8 + text.length);
  return out.buffer;
}

test("an address holds the whole state and gives it back", () => {
  const { hover: _hover, dark: _dark, ...start } = startState();
  const state = { ...start, view: "trace", prompt: "a & b = <i>c</i>?\n#", head: "L5H6", off: { "openwork-8m": ["L5H6", "L6H0"], "a/b c": ["L0H0"] },
    classes: ["blank", "local"], order: "importance", search: "L5", weights: "value", task: "copy", scatter: ["L0H1", "L2H2"], sort: "-mass", table: "change", group: false, pins: ["0:3@7"] };
  assert.deepEqual({ ...start, ...decodeLink(encodeLink(state, "other")) }, state);
});

test("an address that says nonsense changes nothing", () => {
  assert.deepEqual(decodeLink("#nowhere?head=<b>&order=up&scatter=x"), { scatter: [] });
  assert.deepEqual(decodeLink(""), {});
});

test("patterns are read by query and key", () => {
  const read = decodePatterns(tensor(["L0H0", "L0H1"], [[255, 0, 255, 51, 102, 204], [255, 255, 0, 0, 0, 0]], [0.5, 1]));
  assert.equal(read.value("L0H0", 0, 0), 0.5);
  assert.ok(Math.abs(read.value("L0H0", 2, 1) - 0.5 * (102 / 255) ** 2) < 1e-12);
  assert.equal(read.value("L0H0", 0, 1), 0, "nothing above the diagonal");
  assert.equal(read.value("L9H9", 0, 0), 0);
  assert.equal(read.largest, 1);
  const exact = decodePatterns(tensor(["L0H0"], [[1, 0.25, 0.75]], [1], "f32"));
  assert.equal(exact.value("L0H0", 1, 0), 0.25);
  assert.deepEqual([...exact.shades("L0H0", 1)].map((shade) => +shade.toFixed(4)), [1, 0.5, 0.866]);
});

test("a tensor cut short or of another kind is refused", () => {
  const whole = tensor(["L0H0"], [[255, 0, 255]], [1]);
  assert.throws(() => decodePatterns(whole.slice(0, whole.byteLength - 1)), /bytes where/);
  assert.throws(() => decodePatterns(new TextEncoder().encode("nothing at all").buffer), /not a tensor/);
});

test("a lone edge survives a picture smaller than its pattern", () => {
  const cells = 8, entries = new Float32Array((cells * (cells + 1)) / 2);
  entries[(5 * 6) / 2 + 2] = 0.9;
  const pooled = poolStrongest(entries, cells, 4);
  assert.equal(Math.max(...pooled), Math.fround(0.9));
  assert.equal(pooled[2 * 4 + 1], Math.fround(0.9));
});

test("a recorded answer meets a question by its wishes, not by sizes", () => {
  assert.ok(matches({ prompt: "a", model: "m" }, { prompt: "a", model: "m", cells: 96, weights: "attention", heads: ["L0H0"] }));
  assert.ok(!matches({ prompt: "a", model: "m" }, { prompt: "a", model: "m", weights: "value" }));
  assert.ok(!matches({ prompt: "a" }, { prompt: "b" }));
  assert.ok(!matches({}, { prompt: "b" }));
  assert.ok(matches({ off: { m: ["L0H0"], a: ["L1H1"] } }, { off: { a: ["L1H1"], m: ["L0H0"] }, top: 20 }), "whatever the order of keys");
});

test("what a file does not hold is said, not thrown about", async () => {
  const file = openEmbedded({ format: 1, api: { prompt: "a" }, answers: [{ route: "/api/run", request: { prompt: "a" }, answer: 7 }] });
  assert.equal(await file.ask("/api/run", { prompt: "a", top: 3 }), 7);
  await assert.rejects(file.ask("/api/run", { prompt: "b" }), NotHere);
  assert.throws(() => openEmbedded({ format: 2, answers: [] }), /format 2/);
});

test("an answer is asked for once, a failure again", async () => {
  let asked = 0;
  const data = remember({ live: true, knows: () => true, atHand: () => null, api: async () => ({}), ask: async () => { if (++asked === 1) throw new Error("busy"); return asked; }, patterns: async () => null, training: async () => null });
  await assert.rejects(data.ask("/x", { a: 1 }));
  assert.equal(await data.ask("/x", { a: 1 }), 2);
  assert.equal(await data.ask("/x", { a: 1 }), 2);
});

test("a head is switched in all models, and on again only where it was off in all", () => {
  const store = new Store(startState());
  store.toggleHead("L5H6", ["a", "b"]);
  assert.deepEqual(store.state.off, { a: ["L5H6"], b: ["L5H6"] });
  store.toggleHead("L5H6", ["a"]);
  assert.deepEqual(store.state.off, { a: [], b: ["L5H6"] });
  store.toggleHead("L5H6", ["a", "b"]);
  assert.deepEqual(store.state.off, { a: ["L5H6"], b: ["L5H6"] });
});

test("every head of the grid is found where it is drawn", () => {
  const heads = Array.from({ length: 64 }, (_, n) => `L${Math.floor(n / 8)}H${n % 8}`), model = { heads, patterns: null };
  const grid = { models: [model, model], columns: 8, high: 1 };
  for (const width of [380, 1000, 1600]) {
    const place = placeGrid(grid, width);
    heads.forEach((head, n) => [0, 1].forEach((which) => {
      const step = place.cell + place.gap, x = place.left[which] + (n % place.columns) * step, y = Math.floor(n / place.columns) * step;
      assert.equal(hitGrid(grid, place, x + place.cell / 2, y + place.cell / 2)?.head, head);
    }));
  }
});

test("entries count pairs row by row", () => {
  let entry = 0;
  for (let query = 0; query < 40; ++query) for (let key = 0; key <= query; ++key) assert.deepEqual(pairOf(entry++), { query, key });
});

test("rows are sorted by number with the missing last, and by layer before head", () => {
  const rows = [{ name: "L10H0", kind: "a", values: [1] }, { name: "L2H11", kind: "b", values: [null] }, { name: "L2H9", kind: "a", values: [3] }];
  const names = (sort) => sortRows(rows, sort, ["mass"]).map((row) => row.name);
  assert.deepEqual(names("name"), ["L2H9", "L2H11", "L10H0"]);
  assert.deepEqual(names("-mass"), ["L2H9", "L10H0", "L2H11"]);
  assert.deepEqual(names("mass"), ["L10H0", "L2H9", "L2H11"]);
});

test("ticks are round and inside", () => {
  assert.deepEqual(ticksOf(0, 1, 5), [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
  for (const tick of ticksOf(0.0003, 0.4, 5, true)) assert.ok(tick >= 0.0003 && tick <= 0.4);
});

test("a narrow range has two ticks at least, on a logarithmic axis too", () => {
  for (const [low, high, count, log] of [[10240, 19456, 3.5, false], [0.1624, 0.1778, 4, true], [0.16, 0.24, 4, true], [3.1, 3.9, 1, false]]) {
    const ticks = ticksOf(low, high, count, log);
    assert.ok(ticks.length >= 2 && ticks.length <= 12, `${low} to ${high}: ${ticks}`);
    for (const tick of ticks) assert.ok(tick >= low && tick <= high, `${tick} of ${low} to ${high}`);
  }
});

test("a logarithmic axis over nothing but zeros is drawn, and ends", () => {
  assert.ok(ticksOf(0, 1, 5, true).length <= 12);
  assert.deepEqual(ticksOf(NaN, 1, 5, true), []);
  const theme = { soft: "#555", line: "#ccc" }, box = { x: 0, y: 0, w: 300, h: 200 };
  for (const log of [{ logX: true }, { logY: true }, { logX: true, logY: true }]) {
    const surface = new SvgSurface();
    new Axes({ x: "x", y: "y", ...log, series: [{ name: "a", colour: "#000", points: [[0, 0], [0, 0]], dots: true }] }, box).paint(surface, theme);
    assert.ok(!surface.document(300, 200, "a").includes("NaN"));
  }
});

test("a band stays inside its plot", () => {
  const series = { name: "a", colour: "#000", points: [[0, 0.2], [1, 0.9]], band: [[-0.4, 0.5], [0.8, 1.6]] };
  const axes = new Axes({ x: "x", y: "y", fromZero: true, series: [series] }, { x: 0, y: 0, w: 300, h: 200 });
  assert.deepEqual([axes.low[1], axes.high[1]], [-0.4, 1.6]);
  const surface = new SvgSurface();
  axes.paint(surface, { soft: "#555", line: "#ccc" });
  assert.match(surface.document(300, 200, "a"), /clip-path="[^"]+">\n<polygon/);
  const gap = new Axes({ x: "x", y: "y", series: [{ ...series, band: [[-0.4, 0.5], null] }] }, { x: 0, y: 0, w: 300, h: 200 });
  assert.deepEqual([gap.low[1], gap.high[1]], [0.2, 0.9]);
});

// Enough of a page for a view that is not seen.
function standInPage() {
  const element = () => ({
    style: { setProperty() {} }, classList: { toggle() {} }, clientWidth: 0, clientHeight: 0,
    append() {}, replaceChildren() {}, setAttribute() {}, addEventListener() {},
  });
  globalThis.document = { createElement: element };
  globalThis.ResizeObserver = class { observe() {} };
  globalThis.requestAnimationFrame = () => 0;
}

test("an answer about an older prompt does not order the heads of the newer one", async () => {
  standInPage();
  const { HeadsView } = await load("views/heads");
  const asked = new Map(), store = new Store({ ...startState(), prompt: "old", order: "importance" });
  const data = {
    patterns: async () => null,
    ask: (_route, { prompt }) => new Promise((answer) => asked.set(prompt, (...effects) => answer({ models: [{ effects: [effects] }] }))),
  };
  const api = { models: [{ name: "m", layers: 1, heads: 3 }], classes: [], limits: { all_head_cells: 8 } };
  const view = new HeadsView({ api, data, store, run: null, statistics: null, theme: () => ({ models: [], ink: "#000" }) });
  store.subscribe((state, changed) => view.update(state, changed));
  view.update(store.state, new Set(["prompt", "order"]));
  store.set({ prompt: "new" });
  const settle = () => new Promise((done) => setTimeout(done, 0)), order = () => view.grid.models[0].heads;
  asked.get("new")(1, 3, 2);
  await settle();
  assert.deepEqual(order(), ["L0H1", "L0H2", "L0H0"]);
  asked.get("old")(9, 1, 5);
  await settle();
  assert.deepEqual(order(), ["L0H1", "L0H2", "L0H0"]);
});

test("markup in a name stays text in a drawing", () => {
  const surface = new SvgSurface();
  surface.text(`<script>alert("1")</script>\u0000`, 1, 2, { fill: "#000" });
  const svg = surface.document(10, 10, "<b>");
  assert.ok(!svg.includes("<script>") && !svg.includes("<b>") && !svg.includes("\u0000"));
});

test("a link's flow is its share of its target's effects, times the target's influence", () => {
  const node = (node_id, layer, ctx_idx, own_influence, feature_type = "cross layer transcoder") => ({ node_id, layer, ctx_idx, own_influence, feature_type, clerp: node_id });
  const graph = { metadata: { prompt_tokens: [] }, nodes: [node("E_0", "E", 0, 0.5, "embedding"), node("f", "1", 1, 0.4), node("g", "1", 1, 0.2), node("out", "2", 1, 1, "logit"), node("b", "1", 1, 1, "bias")],
    links: [{ source: "f", target: "out", weight: 3 }, { source: "g", target: "out", weight: -1 },
      { source: "E_0", target: "f", weight: 2, heads: [{ layer: 0, head: 1, weight: 1.5 }, { layer: 1, head: 2, weight: 0.5 }] }] };
  const alone = gather(graph, false), together = gather(graph, true);
  const flow = (from, source) => from.flows.find((one) => one.source.id === source).flow;
  assert.equal(flow(alone, "f"), 0.75);
  assert.equal(flow(alone, "g"), 0.25);
  assert.equal(flow(alone, "E_0"), 0.4);
  assert.equal(flow(together, "1@1"), 1, "gathered links are summed");
  const shares = headShares(alone.flows.find((one) => one.source.id === "E_0"), 2);
  assert.deepEqual(shares.map(([head, share]) => [head, +share.toFixed(9)]), [["L0H1", 0.75], ["L1H2", 0.25]]);
  assert.ok(!alone.boxes.has("b"), "biases are not drawn");
});

test("curves pass over lines that lack their number", () => {
  assert.deepEqual(curveOf([{ tokens: 1, loss: 3 }, { tokens: 2, loss: null }, { tokens: 3 }, { tokens: 4, loss: 2 }], "loss"), [[1, 3], [4, 2]]);
});

test("a point of a frontier goes on where the one before it ended", () => {
  const first = follow([], [{ step: 1, tokens: 100 }, { step: 2, tokens: 200, loss: 3 }], { tokens: 0, step: 0 });
  const both = follow(first, [{ step: 1, tokens: 100, loss: null }], { tokens: 200, step: 2 });
  assert.deepEqual(both, [{ step: 1, tokens: 100 }, { step: 2, tokens: 200, loss: 3 }, { step: 3, tokens: 300, loss: null }]);
});

test("what came with the opening is not asked for again, and all else is", async () => {
  const asked = [];
  globalThis.fetch = async (route, options) => {
    asked.push(route);
    const opening = { format: 1, api: { prompt: "a" }, answers: [{ route: "/api/run", request: { top: 20, prompt: "a" }, answer: 7 }, { route: "/api/patterns", request: { prompt: "a", model: "m" }, binary: btoa(String.fromCharCode(...new Uint8Array(tensor(["L0H0"], [[255]], [1])))) }] };
    return { ok: true, status: 200, json: async () => (options ? 8 : opening), arrayBuffer: async () => tensor(["L0H1"], [[255]], [1]) };
  };
  const server = openServer();
  assert.equal((await server.api()).prompt, "a");
  assert.equal(await server.ask("/api/run", { prompt: "a", top: 20 }), 7);
  assert.equal(server.atHand("/api/run", { prompt: "a", top: 20 }), 7);
  assert.equal(server.atHand("/api/run", { prompt: "b", top: 20 }), null);
  assert.ok((await server.patterns({ prompt: "a", model: "m" })).has("L0H0"));
  assert.deepEqual(asked, ["/api/opening"]);
  assert.equal(await server.ask("/api/run", { prompt: "a", top: 3 }), 8);
  assert.ok((await server.patterns({ prompt: "a", model: "m", heads: ["L0H1"] })).has("L0H1"));
  assert.equal(asked.length, 3);
});

test("spaces and line ends of tokens can be seen", () => {
  assert.equal(markToken(" son"), "·son");
  assert.equal(markToken("\n"), "↵");
  assert.equal(markToken(""), "∅");
  assert.equal(percent(0.326), "32.6 %");
  assert.equal(percent(0.00001), "< 0.01 %");
  assert.deepEqual([countHeads(0), countHeads(1), countHeads(12)], ["0 heads", "1 head", "12 heads"]);
});

test("a circuit's size says where the curve stays above the threshold", () => {
  const model = (faithfulness, heads_at_threshold) => ({ counts: [0, 1, 2, 3, 4], faithfulness, heads_at_threshold, candidates: 4 });
  assert.equal(sizeOf(model([0, 0.5, 0.92, 0.95, 1], 2), 0.9), "2 of 4");
  assert.equal(sizeOf(model([0, 0.93, 0.4, 0.95, 1], 1), 0.9), "1 of 4 (and above it for good from 3 on)");
  assert.equal(sizeOf(model([0, 0.1, 0.2, 0.3, 1], 4), 0.9), "4 of 4");
});
