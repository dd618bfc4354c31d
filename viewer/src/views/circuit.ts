// What each head is worth, and what is left without it. Left, every head of every model, coloured by its effect: a click switches
// it off, and the answers beside follow. Right, how faithful the best k heads alone are: a click keeps only those.
import type { Circuit, Importance } from "../data/records.ts";
import { Axes, type Chart } from "../draw/chart.ts";
import { inkOn, modelColour, signedColour } from "../draw/theme.ts";
import type { Surface } from "../draw/surface.ts";
import type { Theme } from "../draw/theme.ts";
import { kNothing, type State } from "../state.ts";
import { countHeads, figure, h, markToken } from "../ui/dom.ts";
import { Plot, type Drawing } from "../ui/plot.ts";
import { Waiting, type Room, type View } from "../ui/view.ts";

const kCurve = 300, kLegend = 22;

export class CircuitView implements View {
  readonly element: HTMLElement;
  private readonly tasks: HTMLSelectElement;
  private readonly together = h("input", { type: "checkbox", checked: true });
  private readonly effectsWait = new Waiting();
  private readonly curveWait = new Waiting();
  private readonly reading = h("p", { class: "reading", "aria-live": "polite" });
  private readonly said = h("p", { class: "said-of" });
  private readonly names = h("ul", { class: "unseen", "aria-label": "heads, the most effective first: a press switches one off or on" });
  private readonly effects: Plot;
  private readonly curve: Plot;
  private importance: Importance | null = null;
  private circuit: Circuit | null = null;

  constructor(private readonly room: Room) {
    const { store, api, data } = room;
    this.tasks = h("select", { "aria-label": "circuit of" },
      ...["", ...api.tasks].filter((task) => data.knows("/api/circuit", task ? { task } : { prompt: api.prompt }))
        .map((task) => h("option", { value: task }, task ? `task: ${task}` : "this prompt")));
    this.tasks.addEventListener("change", () => store.set({ task: this.tasks.value }));
    this.effects = new Plot(this.effectsDrawing(), () => room.theme(), "effect of every head");
    this.curve = new Plot(this.curveDrawing(), () => room.theme(), "faithfulness of the best heads alone");
    const button = (text: string, press: () => void) => h("button", { type: "button", class: "plain", onclick: press }, text);
    this.element = h("section", { class: "view", id: "view-circuit", "aria-label": "ablation and circuit" },
      h("div", { class: "controls" }, button("strongest off", () => this.strongestOff()), button("keep only the circuit", () => this.keepCircuit()),
        button("all on", () => store.set({ off: {} })), h("label", {}, this.together, "in all models at once"), h("label", {}, "circuit of ", this.tasks)),
      this.effectsWait.element, this.effects.element, this.names, this.reading, this.curveWait.element, this.said, this.curve.element);
    this.effects.onPoint((at) => {
      const hit = this.hit(at.x, at.y);
      this.effects.element.style.cursor = hit ? "pointer" : "default";
      if (!hit) { store.set({ hover: kNothing }); return; }
      store.hoverHead(hit.head);
      this.reading.textContent = `${hit.head}   ` + (this.importance?.models.map((model) => `${model.name} ${figure(this.effectOf(model.effects, hit.head))}`).join("   ") ?? "");
    }, () => store.set({ hover: kNothing }));
    this.effects.onPress((at) => {
      const hit = this.hit(at.x, at.y);
      if (hit) { store.set({ head: hit.head }); store.toggleHead(hit.head, this.affected(hit.model)); }
    });
    this.curve.onPress((at) => this.keepFirst(Math.round(this.axes(this.curve.element.clientWidth).valueAt(at.x))));
  }

  update(state: State, changed: ReadonlySet<keyof State>): void {
    if (changed.has("prompt")) this.loadEffects(state);
    if (changed.has("prompt") || changed.has("task")) this.loadCircuit(state);
    if (changed.has("off")) this.markNames(state);
    this.effects.redraw();
    this.curve.redraw();
  }

  // Every head of every model as a button, which is what a keyboard or a screen reader meets.
  private listNames(): void {
    const { api, store } = this.room;
    this.names.replaceChildren(...api.models.flatMap((model, n) => {
      const effects = this.importance!.models[n]?.effects ?? [];
      const heads = effects.flatMap((row, layer) => row.map((effect, head) => ({ effect, head: `L${layer}H${head}` }))).sort((a, b) => b.effect - a.effect);
      return heads.map(({ effect, head }) => h("li", {}, h("button", { type: "button", "data-head": head, "data-model": model.name,
        onclick: () => { store.set({ head }); store.toggleHead(head, this.affected(n)); }, onfocus: () => store.hoverHead(head) }, `${model.name} ${head}: effect ${figure(effect)}`)));
    }));
    this.markNames(store.state);
  }
  private markNames(state: State): void {
    for (const button of this.names.querySelectorAll("button")) button.setAttribute("aria-pressed", String(state.off[button.dataset.model!]?.includes(button.dataset.head!) ?? false));
  }

  exported(): { drawing: Drawing; records: unknown } {
    const above = this.effectsDrawing(), below = this.curveDrawing();
    return {
      drawing: {
        title: "effects of heads and faithfulness", height: (width) => above.height(width) + below.height(width) + 20,
        paint: (surface, width, _height, theme) => {
          above.paint(surface, width, above.height(width), theme);
          this.paintCurve(surface, width, theme, above.height(width) + 20);
        },
      },
      records: { prompt: this.room.store.state.prompt, importance: this.importance, circuit: this.circuit, off: this.room.store.state.off },
    };
  }

  private loadEffects(state: State): void {
    this.effectsWait.watch((progress) => this.room.data.ask<Importance>("/api/importance", { prompt: state.prompt }, progress), (answer) => {
      this.importance = answer;
      const pairs = answer.models.map((model) => model.answer ? `${model.name}: ${markToken(model.answer.token)} over ${markToken(model.wrong?.token ?? "")}` : model.name);
      this.reading.textContent = `Blue heads help the answer, orange ones hinder it.   ${pairs.join("   ")}`;
      this.effects.label(this.room.api.models.map((model, n) => `${model.name}: strongest ${this.strongest(n)}`).join("; "));
      this.listNames();
      this.effects.redraw();
    });
  }

  private loadCircuit(state: State): void {
    const known = [...this.tasks.options].map((one) => one.value), task = known.includes(state.task) ? state.task : known[0] ?? "";
    const wish = task ? { task } : { prompt: state.prompt };
    this.tasks.value = task;
    this.circuit = null;
    this.curveWait.watch((progress) => this.room.data.ask<Circuit>("/api/circuit", wish, progress), (answer) => {
      this.circuit = answer;
      const needs = answer.models.map((model) => `${model.name} ${sizeOf(model, answer.threshold)}`);
      this.said.textContent = `Heads that alone keep ${Math.round(100 * answer.threshold)} % of the effect: ${needs.join(", ")}.`;
      this.curve.redraw();
    });
  }

  private affected(model: number): string[] {
    const names = this.room.api.models.map((one) => one.name);
    return this.together.checked ? names : [names[model]];
  }

  private effectOf(effects: number[][], head: string): number {
    const [, layer, index] = /^L(\d+)H(\d+)$/.exec(head)!;
    return effects[Number(layer)]?.[Number(index)] ?? 0;
  }

  private strongest(model: number): string {
    const effects = this.importance?.models[model]?.effects ?? [];
    let best = { value: -Infinity, head: "L0H0" };
    effects.forEach((row, layer) => row.forEach((value, head) => { if (value > best.value) best = { value, head: `L${layer}H${head}` }; }));
    return best.head;
  }

  private strongestOff(): void {
    if (!this.importance) return;
    const { api, store } = this.room;
    store.set({ off: Object.fromEntries(api.models.map((model, n) => [model.name, [this.strongest(n)]])), head: this.strongest(api.models.length - 1) });
  }

  private keepCircuit(): void {
    this.keep((model) => model.heads_at_threshold);
  }
  private keepFirst(count: number): void {
    this.keep(() => count);
  }
  private keep(count: (model: Circuit["models"][number]) => number): void {
    if (!this.circuit) return;
    this.room.store.set({ off: Object.fromEntries(this.circuit.models.map((model) => [model.name, model.order.slice(Math.max(0, count(model)))])) });
  }

  // Layers downwards, heads across, models beside one another.
  private layout(width: number) {
    const models = this.room.api.models, between = 36, room = (width - between * (models.length - 1)) / models.length;
    const across = Math.max(...models.map((model) => model.heads)), layers = Math.max(...models.map((model) => model.layers));
    const cell = Math.min(46, Math.floor((room - 26) / across));
    return { cell, left: models.map((_, n) => n * (room + between) + 26), top: 26, height: 26 + layers * cell + 4 };
  }

  private hit(x: number, y: number): { model: number; head: string } | null {
    const place = this.layout(this.effects.element.clientWidth);
    for (let n = 0; n < place.left.length; ++n) {
      const head = Math.floor((x - place.left[n]) / place.cell), layer = Math.floor((y - place.top) / place.cell);
      const model = this.room.api.models[n];
      if (head >= 0 && head < model.heads && layer >= 0 && layer < model.layers) return { model: n, head: `L${layer}H${head}` };
    }
    return null;
  }

  private effectsDrawing(): Drawing {
    return { title: "effect of every head", height: (width) => this.layout(width).height,
      paint: (surface, width, _height, theme) => this.paintEffects(surface, width, theme) };
  }

  private paintEffects(surface: Surface, width: number, theme: Theme): void {
    const place = this.layout(width), { api, store: { state } } = this.room;
    const all = this.importance?.models.flatMap((model) => model.effects.flat()) ?? [], most = Math.max(1e-9, ...all.map(Math.abs));
    api.models.forEach((model, n) => {
      const off = new Set(state.off[model.name] ?? []), effects = this.importance?.models[n]?.effects;
      surface.text(model.name, place.left[n] - 26, 10, { size: width < 560 ? 12 : 14, bold: true, fill: modelColour(theme, n) });
      for (let layer = 0; layer < model.layers; ++layer) {
        const y = place.top + layer * place.cell, size = place.cell - 3;
        if (place.cell >= 14 || layer % 4 === 0) surface.text(`L${layer}`, place.left[n] - 6, y + size / 2, { size: 10, fill: theme.soft, align: "right" });
        for (let head = 0; head < model.heads; ++head) {
          const x = place.left[n] + head * place.cell, name = `L${layer}H${head}`, effect = effects?.[layer]?.[head] ?? 0;
          const colour = signedColour(theme, effect / most);
          surface.fade(off.has(name) ? 0.25 : 1);
          surface.rect(x, y, size, size, colour, theme.line, 1, 3);
          if (size >= 30) surface.text(brief(effect), x + size / 2, y + size / 2, { size: 9.5, fill: inkOn(colour), align: "center" });
          surface.fade(1);
          if (off.has(name)) surface.line([[x + 3, y + 3], [x + size - 3, y + size - 3]], theme.lower, 2);
          if (name === state.head) surface.rect(x - 1, y - 1, size + 2, size + 2, null, theme.ink, 1.5, 4);
          if (name === state.hover.head) surface.rect(x - 1, y - 1, size + 2, size + 2, null, theme.mark, 2.5, 4);
        }
      }
    });
  }

  private chart(): Chart {
    const theme = this.room.theme();
    return {
      x: "heads kept, best first", y: "faithfulness", fromZero: true, level: this.circuit?.threshold ?? 0.9,
      series: (this.circuit?.models ?? []).map((model, n) => ({
        name: model.name, colour: modelColour(theme, n), points: model.counts.map((count, at) => [count, model.faithfulness[at]] as const), band: model.intervals,
      })),
    };
  }
  private axes(width: number, down = 0): Axes { return new Axes(this.chart(), { x: 0, y: down + this.legend(width), w: width, h: kCurve }); }

  // Its height: models beside one another where there is room.
  private legend(width: number): number { return kLegend * (width < 560 ? this.room.api.models.length : 1); }

  private curveDrawing(): Drawing {
    return { title: "faithfulness", height: (width) => (this.circuit ? this.legend(width) + kCurve : 1), paint: (surface, width, _height, theme) => this.paintCurve(surface, width, theme, 0) };
  }

  private paintCurve(surface: Surface, width: number, theme: Theme, down: number): void {
    if (!this.circuit) return;
    const axes = this.axes(width, down);
    axes.paint(surface, theme);
    const stacked = this.legend(width) > kLegend;
    let left = axes.inner.x, top = down + kLegend / 2;
    this.circuit.models.forEach((model, n) => {
      const said = `${model.name}: ${countHeads(model.heads_at_threshold)}`;
      surface.circle(left + 5, top, 4, theme.card, modelColour(theme, n), 2.5);
      surface.text(said, left + 15, top, { size: 12, fill: modelColour(theme, n), bold: true });
      if (stacked) top += kLegend;
      else left += 44 + said.length * 7;
      const at = axes.at([model.heads_at_threshold, model.faithfulness[model.counts.indexOf(model.heads_at_threshold)] ?? this.circuit!.threshold]);
      surface.circle(at[0], at[1], 5, theme.card, modelColour(theme, n), 2.5);
    });
  }
}

// "12 of 64"; where the curve falls below the threshold again, as that of a single prompt often does, also where it no longer does.
export function sizeOf(model: Pick<Circuit["models"][number], "counts" | "faithfulness" | "heads_at_threshold" | "candidates">, threshold: number): string {
  const last = model.counts.filter((_, at) => model.faithfulness[at] < threshold).at(-1) ?? -1;
  const stays = model.counts.find((count) => count > last) ?? model.candidates;
  return `${model.heads_at_threshold} of ${model.candidates}${stays > model.heads_at_threshold ? ` (and above it for good from ${stays} on)` : ""}`;
}

// Two places are enough inside a square; what rounds to nothing is not written.
const brief = (effect: number): string => (Math.abs(effect) < 0.005 ? "" : effect.toFixed(2).replace("-", "−"));
