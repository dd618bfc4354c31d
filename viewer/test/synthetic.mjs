// A page's records with made-up patterns, for measuring: any number of models, heads and tokens; `cells` along a head's edge.
// The first model is full, the others keep one cell in twenty.
export function synthesise({ layers, heads, tokens, cells = Math.min(96, tokens), models = ["dense", "sparse"] }) {
  const names = Array.from({ length: layers * heads }, (_, n) => `L${Math.floor(n / heads)}H${n % heads}`), entries = (cells * (cells + 1)) / 2;
  const prompt = "synthetic", words = Array.from({ length: tokens }, (_, n) => ` word${n}`);
  let seed = 1;
  const random = () => ((seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff);
  const answers = [];
  for (const [which, model] of models.entries()) {
    const data = Buffer.alloc(names.length * entries);
    for (let n = 0; n < data.length; ++n) data[n] = which === 0 || random() < 0.05 ? random() * 255 : 0;
    let header = JSON.stringify({ model, weights: "attention", tokens, cells, dtype: "u8", shape: [names.length, entries], heads: names, scale: names.map(() => 1) });
    header += " ".repeat((8 - ((8 + header.length) % 8)) % 8);
    const start = Buffer.alloc(8);
    start.write("OWT1");
    start.writeUInt32LE(header.length, 4);
    answers.push({ route: "/api/patterns", request: { prompt, model }, binary: Buffer.concat([start, Buffer.from(header), data]).toString("base64") });
  }
  const record = (name) => ({ name, ids: words.map((_, n) => n), tokens: words, next: [{ id: 1, token: " next", logit: 1, probability: 0.5 }],
    heads: names.map((head) => ({ head, mass: 1, peak: 0.5, strength: random(), blank: false })) });
  answers.push({ route: "/api/run", request: { prompt }, answer: { prompt, models: models.map(record) } });
  const api = { program: "bench", embedded: true, prompt, tasks: [], statistics: [], classes: [], training: null, limits: { prompt_tokens: 4096, all_head_cells: 96, max_nodes: 100 },
    models: models.map((name) => ({ name, architecture: "synthetic", layers, heads, context: 4096, vocabulary: 1, gated: false, gate: null, device: "cpu", features: false })) };
  return { format: 1, api, answers };
}

// In a page: whether the grid of heads has been drawn.
export const gridDrawn = () => {
  const canvas = document.querySelector(".grid-canvas");
  return Boolean(canvas && canvas.height > 40 && canvas.getContext("2d").getImageData(8, 8, 64, 1).data.some((value, n) => n % 4 === 3 && value > 0));
};
