// One head large in every model, with the tokens along its edges: as a view of its own, and small beside the other views.
import type { Patterns } from "../data/tensor.ts";
import { hitMap, paintMap, placeMap, type HeadMap } from "../draw/head_map.ts";
import { kNothing, type State } from "../state.ts";
import { figure, h, markToken, placeOf } from "../ui/dom.ts";
import { Plot, type Drawing } from "../ui/plot.ts";
import { Waiting, type Room, type View } from "../ui/view.ts";

export class HeadView implements View {
  readonly element: HTMLElement;
  private readonly title = h("h2", { class: "head-name" });
  private readonly reading = h("p", { class: "reading", "aria-live": "polite" });
  private readonly off = h("button", { type: "button", class: "plain" });
  private readonly weighted = h("input", { type: "checkbox" });
  private readonly waiting = new Waiting();
  private readonly plot: Plot;
  private patterns: (Patterns | null)[] = [];
  private loaded = "";

  constructor(private readonly room: Room, private readonly large: boolean) {
    const { store } = room;
    this.plot = new Plot(this.drawing(large), () => room.theme(), "one head's attention");
    this.off.addEventListener("click", () => store.toggleHead(store.state.head, room.api.models.map((model) => model.name)));
    this.weighted.addEventListener("change", () => store.set({ weights: this.weighted.checked ? "value" : "attention" }));
    const step = (by: number, label: string, sign: string) =>
      h("button", { type: "button", class: "plain", "aria-label": label, onclick: () => stepHead(room, by) }, sign);
    const open = h("button", { type: "button", class: "plain", onclick: () => store.set({ view: "head" }) }, "open large");
    this.element = h("section", { class: large ? "view" : "panel", ...(large ? { id: "view-head", "aria-label": "one head" } : { "aria-label": "selected head" }) },
      h("div", { class: "controls" }, this.title, step(-1, "head before", "‹"), step(1, "next head", "›"), this.off,
        large ? h("label", {}, this.weighted, "weighted by values") : open),
      this.waiting.element, this.plot.element, this.reading);
    this.plot.onPoint((at) => {
      const map = this.map(large), hit = hitMap(map, placeMap(map, this.plot.element.clientWidth), at.x, at.y);
      if (!hit || hit.key > hit.query) { store.set({ hover: kNothing }); return; }
      store.set({ hover: { head: store.state.head, tokens: [...new Set([hit.query, hit.key])] } });
      this.read(hit.query, hit.key);
    }, () => store.set({ hover: kNothing }));
    if (!large) this.plot.onPress(() => store.set({ view: "head" }));
  }

  update(state: State, _changed: ReadonlySet<keyof State>): void {
    const wanted = `${state.prompt}\n${state.head}\n${state.weights}`;
    if (state.head && wanted !== this.loaded) { this.loaded = wanted; this.load(state); }
    this.title.textContent = state.head || "no head";
    const everywhere = this.room.api.models.every((model) => state.off[model.name]?.includes(state.head));
    this.off.textContent = everywhere ? "switch on" : "switch off";
    this.off.setAttribute("aria-pressed", String(everywhere));
    this.weighted.checked = state.weights === "value";
    this.plot.redraw();
  }

  exported(): { drawing: Drawing; records: unknown } {
    const { store: { state }, api } = this.room;
    const pattern = (n: number) => {
      const one = this.patterns[n];
      if (!one) return null;
      return Array.from({ length: one.header.cells }, (_, query) => Array.from({ length: query + 1 }, (_, key) => one.value(state.head, query, key)));
    };
    return {
      drawing: this.drawing(true),
      records: { prompt: state.prompt, head: state.head, weights: state.weights,
        models: api.models.map((model, n) => ({ name: model.name, tokens: this.room.run?.models[n]?.tokens, pattern: pattern(n) })) },
    };
  }

  private drawing(labels: boolean): Drawing {
    return {
      title: "one head",
      height: (width) => placeMap(this.map(labels), width).height,
      paint: (surface, width, _height, theme) => {
        const map = this.map(labels);
        paintMap(surface, map, placeMap(map, width), this.room.store.state.hover.tokens, window.devicePixelRatio || 1, theme);
      },
    };
  }

  private map(labels: boolean): HeadMap {
    const { api, run, statistics, store: { state } } = this.room, at = placeOf(state.head);
    return {
      head: state.head, labels,
      high: state.weights === "attention" ? 1 : Math.max(1e-9, ...this.patterns.map((one) => largestOf(one, state.head))),
      models: api.models.map((model, n) => {
        const record = statistics?.models[n], on = run?.models[n]?.heads.find((one) => one.head === state.head);
        const kind = record?.heads[at.layer * record.heads_per_layer + at.head]?.class ?? "";
        return {
          name: model.name, note: [kind, on && `mass ${figure(on.mass)}`, on && `peak ${figure(on.peak)}`].filter(Boolean).join(", "),
          tokens: run?.models[n]?.tokens ?? [], patterns: this.patterns[n] ?? null, off: state.off[model.name]?.includes(state.head) ?? false,
        };
      }),
    };
  }

  private load(state: State): void {
    const { api, data } = this.room;
    const has = (model: { layers: number; heads: number }) => placeOf(state.head).layer < model.layers && placeOf(state.head).head < model.heads;
    this.waiting.watch(
      () => Promise.all(api.models.map((model) => has(model)
        ? data.patterns({ prompt: state.prompt, model: model.name, weights: state.weights, heads: [state.head], format: "f32" }) : null)),
      (patterns) => { this.patterns = patterns; this.plot.label(this.say()); this.plot.redraw(); });
  }

  private say(): string {
    const map = this.map(this.large);
    return `${map.head}: ${map.models.map((model) => `${model.name} ${model.note}`).join("; ")}`;
  }

  private read(query: number, key: number): void {
    const { run, store: { state } } = this.room, tokens = run?.models[0]?.tokens ?? [];
    const values = this.patterns.map((one, n) => `${this.room.api.models[n].name} ${one ? figure(one.value(state.head, one.cellOf(query), one.cellOf(key))) : "–"}`);
    this.reading.textContent = `${markToken(tokens[query] ?? "?")} (${query}) ← ${markToken(tokens[key] ?? "?")} (${key})   ${values.join("   ")}`;
  }
}

function largestOf(patterns: Patterns | null, head: string): number {
  if (!patterns?.has(head)) return 0;
  let most = 0;
  for (let query = 0; query < patterns.header.cells; ++query) {
    for (let key = 0; key <= query; ++key) most = Math.max(most, patterns.value(head, query, key));
  }
  return most;
}

export function stepHead(room: Room, by: number, layers = false): void {
  const model = room.api.models[0], at = placeOf(room.store.state.head), all = model.layers * model.heads;
  const index = (at.layer * model.heads + at.head + by * (layers ? model.heads : 1) + all) % all;
  room.store.set({ head: `L${Math.floor(index / model.heads)}H${index % model.heads}` });
}
