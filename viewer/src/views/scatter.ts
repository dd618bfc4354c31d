// Heads against heads: a point is a pair of tokens, its places the two heads' weights on it. A rectangle drawn in any panel picks
// pairs, and they light up in all panels of all models and along the tokens.
import type { Scatter } from "../data/records.ts";
import type { Patterns } from "../data/tensor.ts";
import { modelColour, type Theme } from "../draw/theme.ts";
import type { Surface } from "../draw/surface.ts";
import type { State } from "../state.ts";
import { figure, h, markToken, unseenTable } from "../ui/dom.ts";
import { Plot, type Drawing } from "../ui/plot.ts";
import { Waiting, type Room, type View } from "../ui/view.ts";

const kMostPoints = 6000, kListed = 24, kTitle = 24, kLabel = 22;

interface Brush { model: number; row: number; column: number; x0: number; y0: number; x1: number; y1: number }  // in panel shares, 0 to 1

export interface PairOfTokens { query: number; key: number }
export function pairOf(entry: number): PairOfTokens {
  const query = Math.floor((Math.sqrt(8 * entry + 1) - 1) / 2);
  return { query, key: entry - (query * (query + 1)) / 2 };
}

export class ScatterView implements View {
  readonly element: HTMLElement;
  private readonly heads = h("input", { type: "text", "aria-label": "heads of the scatter matrix", placeholder: "L0H1, L5H6, …", size: 34, spellcheck: false });
  private readonly waiting = new Waiting();
  private readonly list = h("p", { class: "reading", "aria-live": "polite" });
  private readonly tables = h("div", { class: "unseen" });
  private readonly plot: Plot;
  private record: Scatter | null = null;
  private patterns: Patterns[] = [];
  private brush: Brush | null = null;
  private picked = new Set<number>();

  constructor(private readonly room: Room) {
    this.plot = new Plot(this.drawing(), () => room.theme(), "scatter matrix");
    this.element = h("section", { class: "view", id: "view-scatter", "aria-label": "scatter matrix" },
      h("div", { class: "controls" }, h("label", {}, "heads ", this.heads)), this.waiting.element, this.plot.element, this.list, this.tables);
    this.heads.addEventListener("change", () => room.store.set({ scatter: this.heads.value.toUpperCase().match(/L\d+H\d+/g)?.slice(0, 8) ?? [] }));
    const canvas = this.plot.element;
    canvas.classList.add("brushed");
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); this.begin(this.plot.place(event)); });
    canvas.addEventListener("pointermove", (event) => { if (canvas.hasPointerCapture(event.pointerId)) this.drag(this.plot.place(event)); });
  }

  update(state: State, changed: ReadonlySet<keyof State>): void {
    if (changed.has("prompt") || changed.has("scatter")) this.load(state);
    this.plot.redraw();
  }

  exported(): { drawing: Drawing; records: unknown } | null {
    return this.record ? { drawing: this.drawing(), records: this.record } : null;
  }

  private load(state: State): void {
    const { data } = this.room, wish = { prompt: state.prompt, ...(state.scatter.length > 1 ? { heads: state.scatter } : {}) };
    this.clear();
    this.waiting.watch(async () => {
      const record = await data.ask<Scatter>("/api/scatter", wish);
      const patterns = await Promise.all(record.models.map((model) =>
        data.patterns({ prompt: state.prompt, model: model.name, weights: "attention", heads: model.heads, format: "f32" })));
      return { record, patterns };
    }, ({ record, patterns }) => {
      this.record = record;
      this.patterns = patterns;
      this.heads.value = record.models[0].heads.join(", ");
      this.plot.label(record.models.map((model) => `${model.name}: ${model.heads.join(", ")}`).join("; "));
      this.tables.replaceChildren(...record.models.map((model) => unseenTable(`correlations of heads in ${model.name}`, ["", ...model.heads],
        model.heads.map((head, row) => [head, ...model.heads.map((_, column) => figure(model.pearson[row][column]))]))));
      this.plot.redraw();
    });
  }

  private layout(width: number) {
    const count = this.record?.models.length ?? 1, stacked = width < 620, across = stacked ? 1 : count, between = 30;
    const room = (width - between * (across - 1)) / across, heads = this.record?.models[0]?.heads.length ?? 1;
    const panel = Math.min(130, (room - kLabel) / heads), block = kTitle + heads * panel + kLabel;
    return { panel, heads, left: Array.from({ length: count }, (_, n) => (stacked ? 0 : n * (room + between)) + kLabel),
      top: Array.from({ length: count }, (_, n) => kTitle + (stacked ? n * block : 0)), height: block * (stacked ? count : 1) };
  }

  private drawing(): Drawing {
    return { title: "scatter matrix", height: (width) => (this.record ? this.layout(width).height : 1),
      paint: (surface, width, _height, theme) => this.paint(surface, width, theme) };
  }

  private values(model: number, head: string, entry: number): number {
    const { query, key } = pairOf(entry);
    return this.patterns[model].value(head, query, key);
  }

  private paint(surface: Surface, width: number, theme: Theme): void {
    if (!this.record) return;
    const place = this.layout(width), lit = new Set(this.room.store.state.hover.tokens);
    this.record.models.forEach((model, n) => {
      const entries = this.patterns[n].header.shape[1], step = Math.max(1, Math.ceil(entries / kMostPoints));
      surface.text(model.name, place.left[n], place.top[n] - 16, { size: 14, bold: true, fill: modelColour(theme, n) });
      model.heads.forEach((down, row) => {
        surface.text(down, place.left[n] - 10, place.top[n] + (row + 0.5) * place.panel, { size: 10, fill: theme.soft, align: "center", turn: -90 });
        surface.text(down, place.left[n] + (row + 0.5) * place.panel, place.top[n] + place.heads * place.panel + 10, { size: 10, fill: theme.soft, align: "center" });
        model.heads.forEach((across, column) => {
          const x = place.left[n] + column * place.panel, y = place.top[n] + row * place.panel, size = place.panel - 5;
          surface.rect(x, y, size, size, theme.card, theme.line);
          if (row === column) { surface.text(down, x + size / 2, y + size / 2, { size: 13, fill: theme.soft, align: "center", bold: true }); return; }
          if (column > row) {
            const r = model.pearson[row][column];
            surface.text(r === null ? "–" : `r ${figure(r)}`, x + size / 2, y + size / 2, { size: 12, fill: theme.soft, align: "center" });
            return;
          }
          this.paintPanel(surface, n, across, down, x, y, size, step, entries, lit, theme);
        });
      });
    });
    if (this.brush) {
      const { model, row, column, x0, y0, x1, y1 } = this.brush, size = place.panel - 5;
      surface.rect(place.left[model] + column * place.panel + Math.min(x0, x1) * size, place.top[model] + row * place.panel + Math.min(y0, y1) * size,
        Math.abs(x1 - x0) * size, Math.abs(y1 - y0) * size, null, theme.mark, 1.5);
    }
  }

  private paintPanel(surface: Surface, n: number, across: string, down: string, x: number, y: number, size: number, step: number, entries: number, lit: ReadonlySet<number>, theme: Theme): void {
    const colour = modelColour(theme, n), points: [number, number, number][] = [];
    for (let entry = 0; entry < entries; entry += step) {
      const [a, b] = [this.values(n, across, entry), this.values(n, down, entry)];
      if (a !== 0 || b !== 0 || this.picked.has(entry)) points.push([entry, x + Math.sqrt(a) * size, y + size - Math.sqrt(b) * size]);
    }
    surface.fade(0.45);
    for (const [entry, px, py] of points) if (!this.picked.has(entry)) surface.rect(px - 1, py - 1, 2.4, 2.4, colour);
    surface.fade(1);
    for (const [entry, px, py] of points) {
      const { query, key } = pairOf(entry);
      if (this.picked.has(entry) || (lit.size > 0 && this.picked.size === 0 && (lit.has(query) || lit.has(key)))) surface.circle(px, py, 2.6, theme.mark);
    }
  }

  private begin({ x, y }: { x: number; y: number }): void {
    const place = this.layout(this.plot.element.clientWidth), size = place.panel - 5;
    this.clear();
    for (let model = 0; model < place.left.length; ++model) {
      const column = Math.floor((x - place.left[model]) / place.panel), row = Math.floor((y - place.top[model]) / place.panel);
      if (column < 0 || row < 0 || column >= row || row >= place.heads) continue;
      const at = [(x - place.left[model] - column * place.panel) / size, (y - place.top[model] - row * place.panel) / size];
      this.brush = { model, row, column, x0: at[0], y0: at[1], x1: at[0], y1: at[1] };
    }
    this.plot.redraw();
  }

  private drag({ x, y }: { x: number; y: number }): void {
    if (!this.brush || !this.record) return;
    const place = this.layout(this.plot.element.clientWidth), size = place.panel - 5, { model, row, column } = this.brush;
    const share = (value: number) => Math.min(1, Math.max(0, value));
    this.brush = { ...this.brush, x1: share((x - place.left[model] - column * place.panel) / size), y1: share((y - place.top[model] - row * place.panel) / size) };
    this.pick();
  }

  // The pairs inside the rectangle, by the two heads' values (their roots are the axes).
  private pick(): void {
    const { model, row, column, x0, y0, x1, y1 } = this.brush!, heads = this.record!.models[model].heads;
    const inside = (value: number, a: number, b: number) => value >= Math.min(a, b) && value <= Math.max(a, b);
    this.picked = new Set();
    for (let entry = 0; entry < this.patterns[model].header.shape[1]; ++entry) {
      const [a, b] = [Math.sqrt(this.values(model, heads[column], entry)), Math.sqrt(this.values(model, heads[row], entry))];
      if ((a > 0 || b > 0) && inside(a, x0, x1) && inside(1 - b, y0, y1)) this.picked.add(entry);
    }
    const pairs = [...this.picked].map(pairOf), tokens = this.room.run?.models[model]?.tokens ?? [];
    this.list.textContent = `${pairs.length} pairs: ` + pairs.slice(0, kListed).map(({ query, key }) => `${markToken(tokens[query] ?? "?")} ← ${markToken(tokens[key] ?? "?")}`).join(",  ");
    this.room.store.hoverTokens([...new Set(pairs.flatMap(({ query, key }) => [query, key]))].slice(0, 64));
    this.plot.redraw();
  }

  private clear(): void {
    this.brush = null;
    this.picked = new Set();
    this.list.textContent = "Draw a rectangle in a panel to pick pairs of tokens.";
    this.room.store.hoverTokens([]);
  }
}
