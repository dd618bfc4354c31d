// What a view is: an element, what it does when the state changes, and how it leaves the page (a drawing and its records).
import type { Backend } from "../data/backend.ts";
import type { Api, Run, Statistics } from "../data/records.ts";
import { themeOf, type Theme } from "../draw/theme.ts";
import type { State, Store } from "../state.ts";
import type { Drawing } from "./plot.ts";
import { h } from "./dom.ts";
import { NotHere } from "../data/backend.ts";
import type { Progress } from "../data/records.ts";

// What all views share: the data, the state, and the prompt's own run.
export interface Room {
  api: Api; data: Backend; store: Store;
  run: Run | null;                    // of the prompt that is shown
  statistics: Statistics | null;      // the sample prompts': the classes come from here
  theme(): Theme;
}

export interface View {
  readonly element: HTMLElement;
  update(state: State, changed: ReadonlySet<keyof State>): void;  // only while it is seen; "run" arrives as a change of "prompt"
  exported(): { drawing: Drawing; records: unknown } | null;
}

export const roomTheme = (room: Room): Theme => themeOf(room.store.state.dark);

// A line under a view's title: progress while work runs, then nothing, or why there is nothing.
export class Waiting {
  private readonly text = h("span");
  private readonly button = h("button", { type: "button", class: "plain", hidden: true }, "cancel");
  readonly element = h("p", { class: "waiting", role: "status", hidden: true }, this.text, " ", this.button);
  private latest = 0;

  // Runs the work; an answer that a newer question has overtaken is dropped.
  async watch<T>(work: (onProgress: (at: Progress) => void) => Promise<T>, use: (answer: T) => void): Promise<void> {
    const mine = ++this.latest;
    const timer = setTimeout(() => mine === this.latest && this.say("computing …"), 150);
    try {
      const answer = await work((at) => mine === this.latest && this.say(describe(at), false, at.cancel));
      if (mine === this.latest) { this.say(""); use(answer); }
    } catch (reason) {
      if (mine === this.latest) this.say((reason as Error).message, !(reason instanceof NotHere));
    } finally {
      clearTimeout(timer);
      if (mine === this.latest && this.text.textContent === "computing …") this.say("");
    }
  }
  private say(text: string, bad = false, cancel?: () => void): void {
    this.text.textContent = text;
    this.element.hidden = text === "";
    this.button.hidden = cancel === undefined;
    this.button.onclick = cancel ?? null;
    this.element.classList.toggle("bad", bad && text !== "");
  }
}

const describe = (at: Progress): string =>
  at.all > 0 ? `${at.stage}: ${at.done} of ${at.all}` : at.stage;
