// The frame around the views: prompt, tokens, tabs, the answers beside them; keys; the address.
import type { Importance, Run, Statistics } from "../data/records.ts";
import { encodeLink, decodeLink } from "../link.ts";
import { startState, type State, type ViewName } from "../state.ts";
import { HeadsView } from "../views/heads.ts";
import { HeadView, stepHead } from "../views/head.ts";
import { StatisticsView } from "../views/statistics.ts";
import { ScatterView } from "../views/scatter.ts";
import { CircuitView } from "../views/circuit.ts";
import { TraceView } from "../views/trace.ts";
import { LensView } from "../views/lens.ts";
import { NextView } from "../views/next.ts";
import { TrainingView } from "../views/training.ts";
import { Answers } from "./answer.ts";
import { h } from "./dom.ts";
import { Enlarged } from "./enlarge.ts";
import { drawingOf, exportView } from "./export.ts";
import { listenKeys, makeHelp } from "./keys.ts";
import { TokenStrip } from "./tokens.ts";
import { Waiting, type Room, type View } from "./view.ts";

const kTitles: [ViewName, string][] = [["heads", "Heads"], ["head", "One head"], ["circuit", "Circuit"], ["trace", "Trace"],
  ["lens", "Lens"], ["next", "Next token"], ["statistics", "Statistics"], ["scatter", "Scatter"], ["training", "Training"]];

const kAll: ReadonlySet<keyof State> = new Set(Object.keys(startState()) as (keyof State)[]);

export class Shell {
  readonly element: HTMLElement;
  private readonly prompt = h("textarea", { rows: 1, "aria-label": "prompt", spellcheck: false, id: "prompt" });
  private readonly waiting = new Waiting();
  private readonly strip: TokenStrip;
  private readonly answers: Answers;
  private readonly small: HeadView;
  private readonly views = new Map<ViewName, View>();
  private readonly tabs = new Map<ViewName, HTMLElement>();
  private readonly stage = h("main", { class: "stage" });
  private readonly help = makeHelp();
  private readonly enlarged = new Enlarged();
  private stale = new Set<ViewName>();   // views that have not seen the newest state

  constructor(private readonly room: Room) {
    this.strip = new TokenStrip(room);
    this.answers = new Answers(room);
    this.small = new HeadView(room, false);
    const makers: Record<ViewName, () => View> = {
      heads: () => new HeadsView(room), head: () => new HeadView(room, true), statistics: () => new StatisticsView(room),
      scatter: () => new ScatterView(room), circuit: () => new CircuitView(room), trace: () => new TraceView(room),
      lens: () => new LensView(room), next: () => new NextView(room, this.answers), training: () => new TrainingView(room),
    };
    const titles = kTitles.filter(([name]) => name !== "training" || room.api.training !== null);
    for (const [name] of titles) this.views.set(name, makers[name]());
    const nav = h("nav", { class: "tabs", role: "tablist", "aria-label": "views" }, ...titles.map(([name, title], n) => {
      const tab = h("button", { type: "button", role: "tab", id: `tab-${name}`, title: `key ${n + 1}`, onclick: () => room.store.set({ view: name }) }, title);
      this.tabs.set(name, tab);
      return tab;
    }));
    this.element = h("div", { class: "shell" }, this.header(), this.waiting.element, this.strip.element, nav,
      h("div", { class: "columns" }, this.stage, h("aside", { class: "rail" }, this.answers.element, this.small.element)), this.help, this.enlarged.element);
    if (!room.data.live) { this.prompt.readOnly = true; this.prompt.title = "this file holds one prompt"; }
  }

  async start(): Promise<void> {
    const { store } = this.room;
    store.subscribe((state, changed) => this.changed(state, changed));
    addEventListener("hashchange", () => {
      if (decodeLink(location.hash).view === undefined) return;  // a section of the page around
      const linked = { ...startState(), prompt: this.room.api.prompt, ...decodeLink(location.hash) };
      const { hover: _hover, dark: _dark, ...link } = linked;
      if (encodeLink(link, this.room.api.prompt) !== encodeLink(store.state, this.room.api.prompt)) store.set(link);
    });
    listenKeys(this.room, {
      active: () => document.documentElement.classList.contains("alone") || this.element.matches(":hover") || this.element.contains(document.activeElement),
      views: [...this.views.keys()], prompt: this.prompt, help: this.help, step: (by, layers) => stepHead(this.room, by, layers), dark: () => this.flipDark(), enlarge: () => this.enlarge(),
    });
    this.paintDark(store.state.dark);
    await this.compute();
    await this.classify();   // long work, after the first view
  }

  private header(): HTMLElement {
    const go = () => { if (this.room.data.live) this.room.store.set({ prompt: this.prompt.value, off: {}, pins: [] }); };
    const form = h("form", { class: "ask", onsubmit: (event: Event) => { event.preventDefault(); go(); } }, this.prompt,
      this.room.data.live ? h("button", { type: "submit", class: "go" }, "Run") : null);
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); go(); }
    });
    const kinds = h("select", { "aria-label": "export this view" }, h("option", { value: "" }, "export"),
      ...["svg", "png", "json"].map((kind) => h("option", { value: kind }, kind.toUpperCase())));
    kinds.addEventListener("change", () => {
      const kind = kinds.value;
      kinds.value = "";
      if (kind) this.waiting.watch(() => exportView(this.view(), this.room.store.state.view, kind, this.room.theme()), () => {});
    });
    return h("header", { class: "top" }, h("h1", {}, "openwork"), form, kinds,
      h("button", { type: "button", class: "plain", "aria-label": "enlarge this view", title: "enlarge this view (e)", onclick: () => this.enlarge() }, "⤢"),
      h("button", { type: "button", class: "plain", "aria-label": "dark or light", title: "dark or light (d)", onclick: () => this.flipDark() }, "◐"),
      h("button", { type: "button", class: "plain", "aria-label": "keys", title: "keys (?)", onclick: () => this.help.showModal() }, "?"));
  }

  private enlarge(): void {
    this.waiting.watch(async () => drawingOf(this.view()), (drawing) => this.enlarged.show(drawing, this.room.theme()));
  }

  // On a narrow screen the tabs scroll: the chosen one is brought to where it is seen.
  private markTab(view: ViewName): void {
    for (const [name, tab] of this.tabs) tab.setAttribute("aria-selected", String(name === view));
    const tab = this.tabs.get(view), nav = tab?.parentElement;
    if (!tab || !nav || nav.scrollWidth <= nav.clientWidth) return;
    const left = tab.offsetLeft - nav.offsetLeft;
    if (left < nav.scrollLeft || left + tab.offsetWidth > nav.scrollLeft + nav.clientWidth) nav.scrollLeft = left - (nav.clientWidth - tab.offsetWidth) / 2;
  }

  private view(): View { return this.views.get(this.room.store.state.view) ?? this.views.get("heads")!; }

  private paintDark(dark: boolean): void {
    for (const element of [this.element, document.documentElement]) element.classList.toggle("dark", dark);
  }

  private flipDark(): void {
    const dark = !this.room.store.state.dark;
    try { localStorage.setItem("openwork-dark", dark ? "yes" : "no"); } catch { /* a file's storage may be closed */ }
    this.room.store.set({ dark });
  }

  // The prompt's run: all else waits for it.
  private async compute(): Promise<void> {
    const { data, store } = this.room, prompt = store.state.prompt;
    this.prompt.value = prompt;
    await this.waiting.watch(() => data.ask<Run>("/api/run", { prompt, top: 20 }), (run) => {
      this.room.run = run;
      if (document.documentElement.classList.contains("alone")) document.title = `${prompt.slice(0, 60)} · openwork`;
      this.strip.fill(run.models[0].tokens);
      if (!store.state.head) this.chooseHead(run);
      this.answers.update(store.state);
      this.tell(kAll);
    });
  }

  // Of the built-in prompt the head that matters most, as soon as that is known; till then, and of others, the strongest.
  private chooseHead(run: Run): void {
    const { api, data, store } = this.room, wish = { prompt: run.prompt }, known = data.atHand<Importance>("/api/importance", wish);
    const first = known ? mostEffective(known) : strongestHead(run);
    store.set({ head: first });
    if (known || run.prompt !== api.prompt) return;
    data.ask<Importance>("/api/importance", wish).then((effects) => {
      if (store.state.head === first) store.set({ head: mostEffective(effects) });
    }).catch(() => {});   // the strongest stays chosen
  }

  private async classify(): Promise<void> {
    try {
      this.room.statistics = await this.room.data.ask<Statistics>("/api/statistics", {});
      if (this.room.run) this.tell(new Set<keyof State>(["classes", "sort"]));
    } catch { /* the statistics view says why */ }
  }

  private changed(state: State, changed: ReadonlySet<keyof State>): void {
    if (changed.has("dark")) this.paintDark(state.dark);
    const only_hover = changed.size === 1 && changed.has("hover");
    if (!only_hover) history.replaceState(null, "", encodeLink(state, this.room.api.prompt));
    this.strip.update(state);
    if (changed.has("prompt")) { this.room.run = null; void this.compute(); return; }
    if (changed.has("off") || changed.has("dark")) this.answers.update(state);
    if (this.room.run) this.tell(changed);
  }

  // The seen view hears each change; the others hear all at once when they are opened.
  private tell(changed: ReadonlySet<keyof State>): void {
    const { state } = this.room.store, view = this.view();
    const lasting = [...changed].some((key) => key !== "hover");
    if (lasting) for (const name of this.views.keys()) this.stale.add(name);
    this.markTab(state.view);
    const fresh = this.stage.firstElementChild !== view.element;
    if (fresh) this.stage.replaceChildren(view.element);
    this.element.classList.toggle("wide", state.view === "head" || state.view === "trace");
    view.update(state, fresh && this.stale.has(state.view) ? kAll : changed);
    this.stale.delete(state.view);
    if (state.view !== "head") this.small.update(state, changed);
    this.small.element.hidden = state.view === "head";
  }
}

// The head that moves most in the last model: the sparse one, where little is left.
function strongestHead(run: Run): string {
  const heads = run.models[run.models.length - 1].heads;
  return heads.reduce((best, one) => (one.strength > best.strength ? one : best), heads[0])?.head ?? "L0H0";
}

function mostEffective(importance: Importance): string {
  const heads = importance.models[0].effects.flatMap((row, layer) => row.map((effect, head) => ({ effect, name: `L${layer}H${head}` })));
  return heads.reduce((best, one) => (one.effect > best.effect ? one : best)).name;
}
