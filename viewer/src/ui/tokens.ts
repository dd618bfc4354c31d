// The prompt as its tokens. Pointing at one lights it up in every view, and the other way round.
import type { State } from "../state.ts";
import { h, markToken } from "./dom.ts";
import type { Room } from "./view.ts";

export class TokenStrip {
  readonly element = h("ol", { class: "tokens", "aria-label": "tokens of the prompt" });
  private chips: HTMLElement[] = [];

  constructor(private readonly room: Room) {
    this.element.addEventListener("pointerleave", () => room.store.hoverTokens([]));
  }

  fill(tokens: string[]): void {
    this.chips = tokens.map((token, n) => h("li", {
      title: `token ${n}`, onpointerenter: () => this.room.store.hoverTokens([n]),
    }, markToken(token)));
    this.element.replaceChildren(...this.chips);
  }

  update(state: State): void {
    const lit = new Set(state.hover.tokens);
    this.chips.forEach((chip, n) => chip.classList.toggle("lit", lit.has(n)));
  }
}
