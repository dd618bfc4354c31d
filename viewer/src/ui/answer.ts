// What each model says next, always in sight: its answer, how likely, and what switching heads off does to it.
import type { NextToken, Switched } from "../data/records.ts";
import { modelColour } from "../draw/theme.ts";
import type { State } from "../state.ts";
import { h, markToken, percent } from "./dom.ts";
import { Waiting, type Room } from "./view.ts";

export interface Answered { name: string; answer: NextToken | null; next: NextToken[]; off: string[] }

export class Answers {
  readonly element: HTMLElement;
  readonly waiting = new Waiting();
  current: Answered[] = [];
  onChange: () => void = () => {};
  private readonly cards = h("div", { class: "answers" });

  constructor(private readonly room: Room) {
    this.element = h("section", { class: "panel", "aria-label": "next token" }, this.cards, this.waiting.element);
  }

  // The prompt's own run, or, with heads off, what is said without them.
  update(state: State): void {
    const { run, data } = this.room;
    if (!run) return;
    const anyOff = Object.values(state.off).some((heads) => heads.length > 0);
    if (!anyOff) {
      this.waiting.watch(async () => run, () => this.show(run.models.map((model) => ({ name: model.name, answer: model.next[0] ?? null, next: model.next, off: [] }))));
      return;
    }
    const off = Object.fromEntries(Object.entries(state.off).filter(([, heads]) => heads.length > 0));
    this.waiting.watch(() => data.ask<Switched>("/api/switch", { prompt: state.prompt, off }), (answer) => this.show(answer.models));
  }

  private show(answered: Answered[]): void {
    this.current = answered;
    this.cards.replaceChildren(...answered.map((model, n) => this.card(model, n)));
    this.onChange();
  }

  private card(model: Answered, n: number): HTMLElement {
    const { store, theme } = this.room, colour = modelColour(theme(), n), answer = model.answer;
    const name = h("h3", {}, model.name);
    name.style.color = colour;
    const change = answer?.probability_before !== undefined && model.off.length > 0
      ? h("span", { class: "before" }, `was ${percent(answer.probability_before)}`) : null;
    const heads = model.off.length === 0 ? null : h("p", { class: "off-list" }, "off: ", ...model.off.slice(0, 12).map((head) => h("button", {
      type: "button", class: "chip small", title: `switch ${head} on`, onclick: () => store.toggleHead(head, [model.name]),
    }, head)), model.off.length > 12 ? ` and ${model.off.length - 12} more` : "");
    return h("article", { class: "answer", "data-model": model.name },
      name,
      h("p", { class: "said" }, h("strong", { class: "token" }, markToken(answer?.token ?? "")), " ",
        h("span", { class: "probability" }, answer ? percent(answer.probability) : ""), change),
      bars(model.next.slice(0, 6), colour, model.off.length > 0), heads);
  }
}

// Probabilities as bars on one scale, 0 to 1; behind each, what it was before.
export function bars(next: NextToken[], colour: string, compare: boolean, logits = false): HTMLElement {
  return h("ol", { class: "bars" }, ...next.map((one) => {
    const bar = h("span", { class: "bar" }), was = h("span", { class: "was" });
    bar.style.width = `${100 * one.probability}%`;
    bar.style.background = colour;
    was.style.width = `${100 * (compare ? one.probability_before ?? 0 : 0)}%`;
    was.style.borderColor = colour;
    return h("li", {}, h("span", { class: "token" }, markToken(one.token)), h("span", { class: "track" }, was, bar),
      h("span", { class: "share" }, percent(one.probability)), logits ? h("span", { class: "share" }, one.logit.toFixed(2)) : null);
  }));
}
