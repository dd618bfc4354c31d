// The answer traced to its tokens, in every model: wheel zooms, dragging moves, a click pins a node and lists its links with
// the heads that carry them.
import type { Trace } from "../data/records.ts";
import { gather, headShares, placeBoxes, placeTokens, type Box, type Flow, type Gathered } from "../draw/trace_graph.ts";
import { modelColour, rampColour, type Theme } from "../draw/theme.ts";
import type { Surface } from "../draw/surface.ts";
import { kNothing, type State } from "../state.ts";
import { h, markToken, percent } from "../ui/dom.ts";
import { Plot, type Drawing } from "../ui/plot.ts";
import { Waiting, type Room, type View } from "../ui/view.ts";

const kTitle = 26, kFoot = 64, kLabelled = 7, kNamed = 40, kZoom = 1.6;

interface Eye { scale: number; x: number; y: number }

export class TraceView implements View {
  readonly element: HTMLElement;
  private readonly group = h("input", { type: "checkbox" });
  private readonly count = h("input", { type: "range", min: "10", max: "400", value: "60", "aria-label": "links drawn" });
  private readonly waiting = new Waiting();
  private readonly lines = h("div", { class: "carriers" });
  private readonly links = h("div", { class: "links" });
  private readonly reading = h("p", { class: "reading", "aria-live": "polite" });
  private readonly names = h("ul", { class: "unseen", "aria-label": "nodes, the most influential first" });
  private readonly plot: Plot;
  private trace: Trace | null = null;
  private gathered: Gathered[] = [];
  private eye: Eye = { scale: 1, x: 0, y: 0 };
  private hovered: string | null = null;   // "model:box"
  private dragged = 0;

  constructor(private readonly room: Room) {
    const { store } = room;
    this.plot = new Plot(this.drawing(), () => room.theme(), "trace of the answer");
    const reset = h("button", { type: "button", class: "plain", onclick: () => { this.eye = { scale: 1, x: 0, y: 0 }; this.plot.redraw(); } }, "whole graph");
    const closer = (label: string, sign: string, by: number) => h("button", { type: "button", class: "plain", "aria-label": label, title: label, onclick: () => this.zoomMiddle(by) }, sign);
    this.element = h("section", { class: "view", id: "view-trace", "aria-label": "trace" },
      h("div", { class: "controls" }, h("label", {}, this.group, "group by token and layer"), h("label", {}, "links ", this.count), closer("zoom out", "−", 1 / kZoom), closer("zoom in", "+", kZoom), reset),
      this.waiting.element, this.lines, this.plot.element, this.names, this.reading, this.links);
    this.group.addEventListener("change", () => store.set({ group: this.group.checked, pins: [] }));
    this.count.addEventListener("input", () => this.plot.redraw());
    this.listen();
  }

  update(state: State, changed: ReadonlySet<keyof State>): void {
    this.group.checked = state.group;
    if (changed.has("prompt")) this.load(state);
    if (changed.has("group") && this.trace) this.gatherAll(state);
    if (changed.has("pins") || changed.has("group")) { this.listLinks(state); this.listNames(state); }
    this.plot.redraw();
  }

  exported(): { drawing: Drawing; records: unknown } | null {
    return this.trace ? { drawing: this.drawing(), records: this.trace } : null;
  }

  private load(state: State): void {
    this.waiting.watch((progress) => this.room.data.ask<Trace>("/api/trace", { prompt: state.prompt, max_nodes: 500 }, progress), (trace) => {
      this.trace = trace;
      this.gatherAll(this.room.store.state);
      this.sayCarriers();
      this.listLinks(this.room.store.state);
      this.plot.redraw();
    });
  }

  private gatherAll(state: State): void {
    this.gathered = this.trace!.models.map((model) => gather(model.graph, state.group));
    this.names.replaceChildren();
    this.listNames(state);
  }

  // The strongest nodes of every model as buttons, which is what a keyboard or a screen reader meets: focus shows one, a press pins it.
  private listNames(state: State): void {
    if (!this.names.firstChild) {
      this.names.append(...this.gathered.flatMap((gathered, n) => [...gathered.boxes.values()].sort((a, b) => b.influence - a.influence).slice(0, kNamed)
        .map((box) => h("li", {}, this.nameNode(`${n}:${box.id}`, `${this.trace!.models[n].name}: ${titleOf(box)}, influence ${percent(box.influence)}`)))));
    }
    for (const button of this.names.querySelectorAll("button")) button.setAttribute("aria-pressed", String(state.pins.includes(button.dataset.node!)));
  }
  private nameNode(id: string, said: string): HTMLElement {
    return h("button", { type: "button", "data-node": id, onclick: () => this.togglePin(id),
      onfocus: () => { this.hovered = id; this.read(id); this.plot.redraw(); }, onblur: () => { this.hovered = null; this.room.store.hoverTokens([]); this.plot.redraw(); } }, said);
  }

  // "N of M heads carry 80 % of what moves from A to B", heads as chips.
  private sayCarriers(): void {
    const { store } = this.room;
    this.lines.replaceChildren(...this.trace!.models.map((model, n) => {
      const said = model.trace.explanation, name = h("strong", {}, model.name);
      name.style.color = modelColour(this.room.theme(), n);
      if (!said) return h("p", {}, name);
      const token = (at: number) => `${markToken(model.trace.tokens[at] ?? "?")} (${at})`;
      return h("p", {}, name, ` ${said.needed} of ${said.heads.length} heads carry ${Math.round(100 * said.share)} % of what moves from ${token(said.from)} to ${token(said.to)}: `,
        ...said.heads.slice(0, Math.min(said.needed, 16)).map((head) => h("button", {
          type: "button", class: "chip small", onclick: () => store.set({ head: head.head }), onpointerenter: () => store.hoverHead(head.head), onpointerleave: () => store.hoverHead(null),
        }, head.head)));
    }));
    this.plot.label(this.trace!.models.map((model) => `${model.name}: ${model.graph.nodes.length} nodes, ${model.graph.links.length} links`).join("; "));
  }

  private layout(width: number) {
    const count = Math.max(1, this.trace?.models.length ?? 1), stacked = width < 700, between = 30;
    const w = stacked ? width : (width - between * (count - 1)) / count, h = Math.min(560, Math.max(320, w * 0.8)), block = kTitle + h + kFoot;
    return { w, h, height: stacked ? block * count : block, left: Array.from({ length: count }, (_, n) => (stacked ? 0 : n * (w + between))),
      top: Array.from({ length: count }, (_, n) => kTitle + (stacked ? n * block : 0)) };
  }

  private drawing(): Drawing {
    return { title: "trace", height: (width) => (this.trace ? this.layout(width).height : 1), paint: (surface, width, _height, theme) => this.paint(surface, width, theme) };
  }

  private paint(surface: Surface, width: number, theme: Theme): void {
    if (!this.trace) return;
    const place = this.layout(width), most = Math.max(1e-9, ...this.gathered.map((one) => one.flows[0]?.flow ?? 0));
    this.trace.models.forEach((model, n) => {
      const x = place.left[n], y = place.top[n], target = model.trace.targets[0];
      surface.text(model.name, x, y - 14, { size: 14, bold: true, fill: modelColour(theme, n) });
      surface.text(`→ ${markToken(target?.token ?? "")} ${target ? percent(target.probability) : ""}`, x + place.w, y - 14, { size: 13, fill: theme.ink, align: "right", bold: true });
      surface.rect(x, y, place.w, place.h, theme.card, theme.line, 1, 6);
      surface.clip(x, y, place.w, place.h + kFoot, () => this.paintPanel(surface, n, x, y, place.w, place.h, most, theme));
    });
  }

  private spots(n: number, w: number, h: number): Map<string, { x: number; y: number; room: number }> {
    const spots = placeBoxes(this.gathered[n], w, h), { scale, x, y } = this.eye;
    for (const spot of spots.values()) { spot.x = spot.x * scale + x; spot.y = spot.y * scale + y; spot.room *= scale; }
    return spots;
  }

  private paintPanel(surface: Surface, n: number, x: number, y: number, w: number, h: number, most: number, theme: Theme): void {
    const gathered = this.gathered[n], spots = this.spots(n, w, h), { store: { state } } = this.room, lit = new Set(state.hover.tokens);
    const chosen = new Set([...state.pins, this.hovered].filter((id): id is string => id?.startsWith(`${n}:`) ?? false).map((id) => id.slice(2)));
    const shown = gathered.flows.slice(0, Number(this.count.value));
    const touches = (flow: Flow) => chosen.has(flow.source.id) || chosen.has(flow.target.id);
    const carries = (flow: Flow) => state.hover.head !== null && headShares(flow, 3).some(([head]) => head === state.hover.head);
    const drawn = chosen.size ? [...shown, ...gathered.flows.filter((flow) => touches(flow)).slice(0, 60)] : shown;
    const clipTop = (at: number) => Math.min(y + h, at);
    surface.clip(x, y, w, h, () => {
      for (const flow of drawn) {
        const a = spots.get(flow.source.id)!, b = spots.get(flow.target.id)!, strong = touches(flow) || carries(flow);
        surface.fade(strong ? 0.95 : chosen.size ? 0.08 : flow.source.token === flow.target.token ? 0.22 : 0.6);
        surface.curve(x + a.x, clipTop(y + a.y), x + b.x, y + b.y, carries(flow) ? theme.mark : flow.weight >= 0 ? theme.raise : theme.lower, 0.6 + 9 * (flow.flow / most));
      }
      surface.fade(1);
      for (const box of gathered.boxes.values()) {
        const spot = spots.get(box.id)!, size = Math.max(3, Math.min(22, 5 + 46 * Math.sqrt(box.influence / 4))), on = chosen.has(box.id) || lit.has(box.token);
        const fill = box.kind === "logit" ? modelColour(theme, n) : rampColour(theme, 0.25 + 0.7 * Math.min(1, Math.sqrt(box.influence)));
        surface.rect(x + spot.x - size / 2, y + spot.y - size / 2, size, size, fill, on ? theme.mark : theme.card, on ? 2 : 1, 3);
        if (this.eye.scale > 2.4 && spot.room > 60) surface.text(cut(box.members.length > 1 ? `${box.members.length} nodes` : box.label, Math.floor(spot.room / 6)), x + spot.x, y + spot.y + size / 2 + 8, { size: 10, fill: theme.soft, align: "center" });
      }
      this.paintShares(surface, drawn.filter((flow) => flow.source.token !== flow.target.token && (!chosen.size || touches(flow))), spots, x, y, w, theme);
    });
    this.paintTokens(surface, n, x, y + h, w, lit, theme);
  }

  // On the strongest links between tokens, the head that makes the last move and its part of the link.
  private paintShares(surface: Surface, flows: Flow[], spots: Map<string, { x: number; y: number }>, x: number, y: number, w: number, theme: Theme): void {
    const taken: [number, number][] = [];
    for (const flow of flows) {
      const [share] = headShares(flow, 1), a = spots.get(flow.source.id)!, b = spots.get(flow.target.id)!;
      if (!share) continue;
      const at: [number, number] = [x + Math.min(w - 32, Math.max(32, (a.x + b.x) / 2)), y + (a.y + b.y) / 2];
      if (taken.some(([u, v]) => Math.abs(u - at[0]) < 62 && Math.abs(v - at[1]) < 15)) continue;
      taken.push(at);
      surface.fade(0.9);
      surface.rect(at[0] - 30, at[1] - 7, 60, 14, theme.card, null, 0, 4);
      surface.fade(1);
      surface.text(`${share[0]} ${Math.round(100 * share[1])} %`, at[0], at[1], { size: 10, fill: theme.ink, align: "center" });
      if (taken.length >= kLabelled) return;
    }
  }

  private paintTokens(surface: Surface, n: number, x: number, y: number, w: number, lit: ReadonlySet<number>, theme: Theme): void {
    const tokens = this.trace!.models[n].trace.tokens, { left, column: unit } = placeTokens(this.gathered[n].tokens, w), column = unit * this.eye.scale, every = Math.max(1, Math.ceil(13 / column));
    tokens.forEach((token, at) => {
      if (at % every !== 0 && !lit.has(at)) return;
      const px = left * this.eye.scale + (at + 0.5) * column + this.eye.x;
      if (px < 0 || px > w) return;
      surface.text(cut(markToken(token), 10), x + px + 4, y + 8, { size: 11, fill: lit.has(at) ? theme.accent : theme.soft, bold: lit.has(at), align: "right", turn: -55 });
    });
  }

  private hit(px: number, py: number): string | null {
    const place = this.layout(this.plot.element.clientWidth);
    for (let n = 0; n < this.gathered.length; ++n) {
      const x = px - place.left[n], y = py - place.top[n];
      if (x < 0 || y < 0 || x > place.w || y > place.h) continue;
      let best: string | null = null, least = 14;
      for (const [id, spot] of this.spots(n, place.w, place.h)) {
        const away = Math.hypot(spot.x - x, spot.y - y);
        if (away < least) { least = away; best = `${n}:${id}`; }
      }
      return best;
    }
    return null;
  }

  private listen(): void {
    const canvas = this.plot.element, { store } = this.room;
    canvas.classList.add("moved");
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); this.dragged = 0; });
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) {
        this.dragged += Math.abs(event.movementX) + Math.abs(event.movementY);
        this.eye = { ...this.eye, x: this.eye.x + event.movementX, y: this.eye.y + event.movementY };
        this.plot.redraw();
        return;
      }
      const at = this.plot.place(event), found = this.hit(at.x, at.y);
      if (found !== this.hovered) { this.hovered = found; this.read(found); this.plot.redraw(); }
    });
    canvas.addEventListener("pointerleave", () => { this.hovered = null; store.set({ hover: kNothing }); this.plot.redraw(); });
    canvas.addEventListener("click", () => {
      if (this.dragged <= 4 && this.hovered) this.togglePin(this.hovered);
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && this.eye.scale === 1 && event.deltaY > 0) return;  // the page scrolls on
      event.preventDefault();
      this.zoom(event);
    }, { passive: false });
  }

  private togglePin(id: string): void {
    const { store } = this.room, pins = store.state.pins;
    store.set({ pins: pins.includes(id) ? pins.filter((one) => one !== id) : [...pins, id] });
  }

  private zoom(event: WheelEvent): void {
    const at = this.plot.place(event), place = this.layout(this.plot.element.clientWidth);
    const n = Math.max(0, place.left.findIndex((left, index) => at.x >= left && at.x <= left + place.w && at.y <= place.top[index] + place.h + kFoot));
    this.zoomAbout(at.x - place.left[n], at.y - place.top[n], Math.exp(-event.deltaY / 400));
  }
  private zoomMiddle(times: number): void {
    const place = this.layout(this.plot.element.clientWidth);
    this.zoomAbout(place.w / 2, place.h / 2, times);
  }
  private zoomAbout(x: number, y: number, times: number): void {
    const wanted = Math.min(12, this.eye.scale * times), scale = wanted < 1.001 ? 1 : wanted, by = scale / this.eye.scale;   // in and out again is the whole graph
    this.eye = scale === 1 ? { scale, x: 0, y: 0 } : { scale, x: x - (x - this.eye.x) * by, y: y - (y - this.eye.y) * by };
    this.plot.redraw();
  }

  private read(found: string | null): void {
    const box = found ? this.gathered[Number(found[0])]?.boxes.get(found.slice(2)) : undefined;
    this.room.store.hoverTokens(box ? [box.token] : []);
    if (box) this.reading.textContent = `${box.members.slice(0, 5).map((node) => node.clerp || node.name).join(", ")}${box.members.length > 5 ? ` and ${box.members.length - 5} more` : ""}   influence ${percent(box.influence)}`;
  }

  // A table for each pinned node: where from, how much, by which heads.
  private listLinks(state: State): void {
    const { store } = this.room;
    this.links.replaceChildren(...state.pins.map((pin) => {
      const gathered = this.gathered[Number(pin[0])], box = gathered?.boxes.get(pin.slice(2));
      if (!box) return "";
      const flows = gathered.flows.filter((flow) => flow.source === box || flow.target === box).slice(0, 12);
      return h("table", { class: "numbers pinned" }, h("caption", {}, titleOf(box), " ", h("button", { type: "button", class: "plain", onclick: () => store.set({ pins: store.state.pins.filter((one) => one !== pin) }) }, "unpin")),
        h("tbody", {}, ...flows.map((flow) => h("tr", {}, h("th", { scope: "row" }, flow.target === box ? `← ${titleOf(flow.source)}` : `→ ${titleOf(flow.target)}`), h("td", {}, percent(flow.flow)),
          h("td", { class: "kind" }, ...headShares(flow, 4).map(([head, share]) => h("button", { type: "button", class: "chip small", onclick: () => store.set({ head }) }, `${head} ${Math.round(100 * share)} %`)))))));
    }));
  }
}

const cut = (text: string, most: number): string => (text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text);

const titleOf = (box: Box): string => `${cut(box.members.length > 1 ? `${box.members.length} nodes` : box.label, 24)} · ${box.layer < 0 ? "token" : `layer ${box.layer}`} ${box.token}`;
