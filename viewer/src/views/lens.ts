// The logit lens: what each layer would say at each token, were it the last. Columns are tokens, rows layers, the answer on top.
import type { Lens } from "../data/records.ts";
import { inkOn, modelColour, rampColour, type Theme } from "../draw/theme.ts";
import type { Surface } from "../draw/surface.ts";
import { kNothing, type State } from "../state.ts";
import { h, markToken, percent, unseenTable } from "../ui/dom.ts";
import { Plot, type Drawing } from "../ui/plot.ts";
import { Waiting, type Room, type View } from "../ui/view.ts";

const kRow = 24, kLabel = 76, kTitle = 26, kFoot = 22, kWidest = 12_000, kNarrowest = 34;

export class LensView implements View {
  readonly element: HTMLElement;
  private readonly shade = h("select", { "aria-label": "shade" }, h("option", { value: "own" }, "shade: the token shown"), h("option", { value: "answer" }, "shade: the answer"));
  private readonly waiting = new Waiting();
  private readonly reading = h("p", { class: "reading", "aria-live": "polite" });
  private readonly tables = h("div", { class: "unseen" });
  private readonly plot: Plot;
  private readonly frame: HTMLElement;
  private lenses: Lens[] = [];

  constructor(private readonly room: Room) {
    this.plot = new Plot(this.drawing(() => this.frame.scrollLeft), () => room.theme(), "logit lens");
    this.frame = h("div", { class: "sideways" }, this.plot.element);
    this.frame.addEventListener("scroll", () => this.plot.redraw(), { passive: true });   // names and layers stay where they are seen
    this.element = h("section", { class: "view", id: "view-lens", "aria-label": "logit lens" },
      h("div", { class: "controls" }, this.shade), this.waiting.element, this.frame, this.reading, this.tables);
    this.shade.addEventListener("change", () => this.plot.redraw());
    this.plot.onPoint((at) => this.point(at.x, at.y), () => room.store.set({ hover: kNothing }));
  }

  update(state: State, changed: ReadonlySet<keyof State>): void {
    if (changed.has("prompt")) {
      const { api, data } = this.room;
      this.waiting.watch(() => Promise.all(api.models.map((model) => data.ask<Lens>("/api/lens", { prompt: state.prompt, model: model.name, top: 3 }))), (lenses) => {
        this.lenses = lenses;
        this.plot.element.style.minWidth = `${this.least()}px`;
        requestAnimationFrame(() => { this.frame.scrollLeft = this.frame.scrollWidth; });   // the answer stands over the last token
        this.tables.replaceChildren(...lenses.map((lens) => unseenTable(`${lens.model}: what each layer would say at each token`,
          ["layer", ...lens.tokens.map(markToken)], lens.points.map((point, row) => [point, ...lens.top[row].map((best) => `${markToken(best[0].token)} ${percent(best[0].probability)}`)]))));
        this.plot.label(lenses.map((lens) => `${lens.model} answers ${lens.answer.token}`).join("; "));
        this.plot.redraw();
      });
    }
    this.plot.redraw();
  }

  exported(): { drawing: Drawing; records: unknown } {
    return { drawing: this.drawing(), records: { prompt: this.room.store.state.prompt, lenses: this.lenses } };
  }

  private tall(lens: Lens): number { return kTitle + lens.points.length * kRow + kFoot + 14; }

  private least(): number { return Math.min(kWidest, kLabel + Math.max(0, ...this.lenses.map((lens) => lens.tokens.length)) * kNarrowest); }

  // `from`: how far the drawing is scrolled sideways.
  private drawing(from = () => 0): Drawing {
    return {
      title: "logit lens", least: () => this.least(), height: () => Math.max(1, this.lenses.reduce((sum, lens) => sum + this.tall(lens), 0)),
      paint: (surface, width, _height, theme) => {
        let top = 0;
        this.lenses.forEach((lens, n) => { this.paintLens(surface, lens, n, top, width, from(), theme); top += this.tall(lens); });
      },
    };
  }

  private paintLens(surface: Surface, lens: Lens, model: number, top: number, width: number, from: number, theme: Theme): void {
    const unit = (width - kLabel) / lens.tokens.length, lit = new Set(this.room.store.state.hover.tokens), most = Math.max(3, Math.floor(unit / 6.6));
    const cut = (token: string) => { const text = markToken(token); return text.length > most ? text.slice(0, most - 1) + "…" : text; };
    surface.text(lens.model, from, top + 11, { size: 14, bold: true, fill: modelColour(theme, model) });
    lens.points.forEach((point, row) => {
      const y = top + kTitle + (lens.points.length - 1 - row) * kRow;
      lens.top[row].forEach((best, at) => {
        const share = this.shade.value === "answer" ? lens.answer_probability[row][at] : best[0].probability, colour = rampColour(theme, Math.sqrt(share));
        surface.rect(kLabel + at * unit, y, unit - 1, kRow - 1, colour);
        if (unit >= 26) surface.text(cut(best[0].token), kLabel + (at + 0.5) * unit, y + kRow / 2, { size: 11, fill: inkOn(colour), align: "center", bold: best[0].id === lens.answer.id });
        if (lit.has(at)) surface.rect(kLabel + at * unit, y, unit - 1, kRow - 1, null, theme.mark, 1.5);
      });
      if (from > 0) surface.rect(from, y, kLabel - 4, kRow, theme.paper);   // over the cells that are scrolled under it
      surface.text(point, from + kLabel - 8, y + kRow / 2, { size: 11, fill: theme.soft, align: "right" });
    });
    if (unit < 22) return;
    lens.tokens.forEach((token, at) => surface.text(cut(token), kLabel + (at + 0.5) * unit, top + kTitle + lens.points.length * kRow + 11,
      { size: 11, fill: lit.has(at) ? theme.accent : theme.soft, align: "center", bold: lit.has(at) }));
    if (from > 0) surface.rect(from, top + kTitle + lens.points.length * kRow, kLabel - 4, kFoot, theme.paper);
  }

  private point(x: number, y: number): void {
    let top = 0;
    for (const lens of this.lenses) {
      const unit = (this.plot.element.clientWidth - kLabel) / lens.tokens.length;
      const at = Math.floor((x - kLabel) / unit), row = lens.points.length - 1 - Math.floor((y - top - kTitle) / kRow);
      if (at >= 0 && at < lens.tokens.length && row >= 0 && row < lens.points.length && y >= top + kTitle) {
        this.room.store.hoverTokens([at]);
        const best = lens.top[row][at].map((one) => `${markToken(one.token)} ${percent(one.probability)}`).join(", ");
        this.reading.textContent = `${lens.model}, ${lens.points[row]}, at ${markToken(lens.tokens[at])}: ${best}; ${markToken(lens.answer.token)} ${percent(lens.answer_probability[row][at])}`;
        return;
      }
      top += this.tall(lens);
    }
    this.room.store.set({ hover: kNothing });
  }
}
