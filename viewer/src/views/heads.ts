// The grid of heads, dense beside sparse. The squares are one canvas that follows the scroll; every head is also a button in the
// document, which is what a keyboard or a screen reader meets.
import type { Importance } from "../data/records.ts";
import { CanvasSurface } from "../draw/surface.ts";
import { hitGrid, paintGrid, paintGridTitles, placeGrid, type Grid, type GridLook, type GridPlace } from "../draw/head_grid.ts";
import { modelColour } from "../draw/theme.ts";
import { kNothing, type State } from "../state.ts";
import { figure, h, markToken, percent, placeOf } from "../ui/dom.ts";
import type { Drawing } from "../ui/plot.ts";
import { Waiting, type Room, type View } from "../ui/view.ts";
import type { Patterns } from "../data/tensor.ts";

export class HeadsView implements View {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { class: "grid-canvas", "aria-hidden": "true" });
  private readonly spacer = h("div", { class: "grid-spacer" }, this.canvas);
  private readonly scroller = h("div", { class: "grid-scroll" }, this.spacer);
  private readonly titles = h("div", { class: "grid-titles" });
  private readonly chips = h("div", { class: "chips", role: "group", "aria-label": "classes shown" });
  private readonly names = h("ul", { class: "unseen", "aria-label": "heads" });
  private readonly reading = h("p", { class: "reading", "aria-live": "polite" });
  private readonly search = h("input", { type: "search", placeholder: "L5H1", "aria-label": "search a head", size: 7, spellcheck: false });
  private readonly order = h("select", { "aria-label": "order of heads" },
    h("option", { value: "layer" }, "by layer"), h("option", { value: "importance" }, "by importance"), h("option", { value: "strength" }, "by strength"));
  private readonly waiting = new Waiting();
  private patterns: (Patterns | null)[] = [];
  private importance: Importance | null = null;
  private grid: Grid = { models: [], columns: 1, high: 1 };
  private place: GridPlace = placeGrid(this.grid, 1);
  private due = false;
  private told: unknown[] = [];          // what the list of names was made from

  constructor(private readonly room: Room) {
    const { store } = room;
    this.element = h("section", { class: "view", id: "view-heads", "aria-label": "heads" },
      h("div", { class: "controls" }, this.order, this.search, this.chips),
      this.waiting.element, this.titles, this.scroller, this.reading, this.names);
    this.order.addEventListener("change", () => store.set({ order: this.order.value as State["order"] }));
    this.search.addEventListener("input", () => this.find());
    this.scroller.addEventListener("scroll", () => this.redraw(), { passive: true });
    new ResizeObserver(() => this.relay()).observe(this.scroller);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => store.set({ hover: kNothing }));
    this.canvas.addEventListener("click", (event) => {
      const hit = this.hit(event);
      if (!hit) return;
      if (event.shiftKey) store.toggleHead(hit.head, room.api.models.map((model) => model.name));
      else store.set({ head: hit.head });
    });
    this.canvas.addEventListener("dblclick", () => store.set({ view: "head" }));
  }

  update(state: State, changed: ReadonlySet<keyof State>): void {
    if (changed.has("prompt") || changed.has("weights")) this.load(state);
    if (changed.has("order") && state.order === "importance" && !this.importance) this.rank(state);
    if (["prompt", "weights", "order", "classes", "search", "off"].some((key) => changed.has(key as keyof State))) this.arrange();
    if (changed.has("head") && !changed.has("prompt")) this.reveal(state.head);
    this.redraw();
  }

  exported(): { drawing: Drawing; records: unknown } {
    const { grid } = this, { state } = this.room.store;
    const look: GridLook = { hoverHead: null, selected: "", hoverTokens: [], pixelRatio: 2 };
    return {
      drawing: {
        title: `heads on: ${state.prompt}`,
        height: (width) => placeGrid(grid, width).height + 52,
        paint: (surface, width, _height, theme) => {
          const place = placeGrid(grid, width);
          paintGridTitles(surface, grid, place, theme);
          paintGrid(surface, grid, place, look, theme, 0, place.height, 52);
        },
      },
      records: { prompt: state.prompt, run: this.room.run, statistics: this.room.statistics?.models.map(({ name, heads }) => ({ name, heads })) },
    };
  }

  private load(state: State): void {
    const { api, data } = this.room;
    this.importance = null;
    this.waiting.watch(
      () => Promise.all(api.models.map((model) => data.patterns({
        prompt: state.prompt, model: model.name, weights: state.weights, cells: api.limits.all_head_cells,
      }))),
      (patterns) => { this.patterns = patterns; this.arrange(); this.redraw(); });
    if (state.order === "importance") this.rank(state);
  }

  private rank(state: State): void {
    const isShown = (): boolean => this.room.store.state.prompt === state.prompt;
    this.room.data.ask<Importance>("/api/importance", { prompt: state.prompt })
      .then((answer) => { if (isShown()) { this.importance = answer; this.arrange(); this.redraw(); } })
      .catch((reason: Error) => { if (isShown()) this.reading.textContent = reason.message; });
  }

  // A head's class in one model; null while statistics are not there.
  private classOf(model: number, head: string): string | null {
    const record = this.room.statistics?.models[model];
    if (!record) return null;
    const at = placeOf(head);
    return record.heads[at.layer * record.heads_per_layer + at.head]?.class ?? null;
  }

  private ordered(model: number, heads: string[], order: State["order"]): string[] {
    const strengths = new Map(this.room.run?.models[model]?.heads.map((one) => [one.head, one.strength]) ?? []);
    const effects = this.importance?.models[model]?.effects;
    const worth = (head: string): number => {
      const at = placeOf(head);
      return order === "strength" ? strengths.get(head) ?? 0 : effects?.[at.layer]?.[at.head] ?? 0;
    };
    return order === "layer" ? heads : [...heads].sort((a, b) => worth(b) - worth(a));
  }

  private arrange(): void {
    const { api, store: { state } } = this.room;
    const wanted = new Set(state.classes), search = state.search.trim().toUpperCase();
    const known = this.room.statistics !== null;  // until then nothing is filtered
    const fits = (model: number, head: string) => wanted.size === 0 || !known || wanted.has(this.classOf(model, head) ?? "");
    const all = [...new Set(api.models.flatMap((model) =>
      Array.from({ length: model.layers * model.heads }, (_, n) => `L${Math.floor(n / model.heads)}H${n % model.heads}`)))];
    const exact = all.includes(search);
    const shown = all.filter((head) => (search === "" || exact || head.includes(search)) && api.models.some((_, n) => fits(n, head)));
    const notes = api.models.map((_, n) => this.note(n));
    const layer = Math.max(...api.models.map((model) => model.heads));
    this.grid = {
      columns: state.order === "layer" && wanted.size === 0 ? layer : Math.max(layer, 8),
      high: state.weights === "attention" ? 1 : Math.max(1e-9, ...this.patterns.map((one) => one?.largest ?? 0)),
      models: api.models.map((model, n) => ({
        name: model.name, note: notes[n], patterns: this.patterns[n] ?? null,
        heads: this.ordered(n, shown.filter((head) => placeOf(head).layer < model.layers && placeOf(head).head < model.heads), state.order),
        faded: (head) => !fits(n, head), off: new Set(state.off[model.name] ?? []),
      })),
    };
    this.order.value = state.order;
    if (this.search.value !== state.search) this.search.value = state.search;
    this.titles.replaceChildren(...api.models.map((model, n) => {
      const name = h("h2", {}, model.name);
      name.style.color = modelColour(this.room.theme(), n);
      return h("div", {}, name, h("span", {}, notes[n]));
    }));
    this.drawChips();
    this.listNames(shown);
    this.relay();
  }

  private note(model: number): string {
    const run = this.room.run?.models[model];
    if (!run) return "";
    const open = run.heads.filter((head) => !head.blank).length;
    const kept = run.prompt_kept_edges === undefined ? "" : `, ${percent(run.prompt_kept_edges)} of edges`;
    return `${open} of ${run.heads.length} heads${kept} on this prompt`;
  }

  private drawChips(): void {
    const { api, statistics, store } = this.room;
    this.chips.replaceChildren(...api.classes.map((one) => {
      const counts = statistics?.models.map((model) => model.classes[one.name] ?? 0) ?? [];
      if (statistics && counts.every((count) => count === 0)) return "";
      const on = store.state.classes.includes(one.name);
      return h("button", {
        type: "button", class: "chip", "aria-pressed": String(on), title: `${one.measure} ${one.threshold ?? ""}`.trim(),
        onclick: () => store.set({ classes: on ? store.state.classes.filter((name) => name !== one.name) : [...store.state.classes, one.name] }),
      }, one.name, h("small", {}, counts.join(" → ")));
    }));
  }

  // Every head by name; the list is kept while it says the same, and with it the keyboard's place.
  private listNames(shown: string[]): void {
    const { api, store, run, statistics } = this.room;
    const told = [shown.join(), run, statistics];
    if (told.every((one, n) => one === this.told[n])) return;
    this.told = told;
    const records = api.models.map((_, n) => new Map(run?.models[n]?.heads.map((one) => [one.head, one]) ?? []));
    this.names.replaceChildren(...shown.map((head) => {
      const said = api.models.map((model, n) => {
        const one = records[n].get(head);
        const what = [this.classOf(n, head), one ? (one.blank ? "blank here" : `mass ${figure(one.mass)}`) : null].filter(Boolean);
        return `${model.name} ${what.join(", ")}`;
      });
      return h("li", {}, h("button", {
        type: "button", "data-head": head, onclick: () => store.set({ head }), onfocus: () => { store.hoverHead(head); this.reveal(head); },
      }, `${head}: ${said.join("; ")}`));
    }));
  }

  private find(): void {
    const text = this.search.value, name = text.trim().toUpperCase();
    const exists = this.grid.models.some((model) => model.heads.includes(name)) || /^L\d+H\d+$/.test(name);
    this.room.store.set({ search: text, ...(exists && this.room.api.models.some((model) => placeOf(name).layer < model.layers && placeOf(name).head < model.heads) ? { head: name } : {}) });
  }

  private reveal(head: string): void {
    const index = this.grid.models[0]?.heads.indexOf(head) ?? -1;
    if (index < 0) return;
    const step = this.place.cell + this.place.gap, y = Math.floor(index / this.place.columns) * step;
    if (y < this.scroller.scrollTop) this.scroller.scrollTop = y;
    else if (y + step > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = y + step - this.scroller.clientHeight;
  }

  private relay(): void {
    const width = this.spacer.clientWidth;
    if (width === 0) return;
    this.place = placeGrid(this.grid, width - 4);
    this.spacer.style.height = `${this.place.height + 6}px`;
    this.titles.style.setProperty("column-gap", `${this.place.between}px`);
    this.redraw();
  }

  private redraw(): void {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => { this.due = false; this.drawNow(); });
  }

  private drawNow(): void {
    const { state } = this.room.store, width = this.spacer.clientWidth, height = this.scroller.clientHeight;
    if (width === 0 || height === 0) return;
    const scale = window.devicePixelRatio || 1, [w, t] = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== t) {
      this.canvas.width = w;
      this.canvas.height = t;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d")!;
    context.setTransform(scale, 0, 0, scale, 2 * scale, 2 * scale);
    context.clearRect(-2, -2, width, height);
    const look = { hoverHead: state.hover.head, selected: state.head, hoverTokens: state.hover.tokens, pixelRatio: scale };
    const top = this.scroller.scrollTop, theme = this.room.theme(), surface = new CanvasSurface(context);
    paintGrid(surface, this.grid, this.place, look, theme, top, top + height);
  }

  private hit(event: MouseEvent) {
    const box = this.canvas.getBoundingClientRect();
    return hitGrid(this.grid, this.place, event.clientX - box.left - 2, event.clientY - box.top - 2 + this.scroller.scrollTop);
  }

  private point(event: PointerEvent): void {
    const hit = this.hit(event), { store } = this.room;
    this.canvas.style.cursor = hit ? "pointer" : "default";
    if (!hit) { store.set({ hover: kNothing }); return; }
    const patterns = this.grid.models[hit.model].patterns;
    const causal = patterns !== null && hit.key <= hit.query;
    const tokens = causal ? [...new Set([patterns.tokenOf(hit.query), patterns.tokenOf(hit.key)])] : [];
    store.set({ hover: { head: hit.head, tokens } });
    this.read(hit.head, causal ? hit.query : -1, hit.key);
  }

  private read(head: string, query: number, key: number): void {
    const tokens = this.room.run?.models[0]?.tokens ?? [];
    const parts = this.grid.models.map((model, n) => {
      const value = query >= 0 && model.patterns ? ` ${figure(model.patterns.value(head, query, key))}` : "";
      return `${model.name}: ${this.classOf(n, head) ?? ""}${value}`;
    });
    const first = this.grid.models[0].patterns;
    const where = query >= 0 && first ? `  ${markToken(tokens[first.tokenOf(query)] ?? "?")} ← ${markToken(tokens[first.tokenOf(key)] ?? "?")}` : "";
    this.reading.textContent = `${head}${where}   ${parts.join("   ")}`;
  }
}
