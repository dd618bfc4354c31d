// The keyboard: one table, which is also the help.
import type { ViewName } from "../state.ts";
import { h } from "./dom.ts";
import type { Room } from "./view.ts";

export interface KeyActions {
  active(): boolean;   // keys are the viewer's: it stands alone, or the pointer or the focus is in it
  views: ViewName[]; prompt: HTMLTextAreaElement; help: HTMLDialogElement; step(by: number, layers: boolean): void; dark(): void; enlarge(): void;
}

const kKeys: [string, string][] = [
  ["1 … 9", "views, in the order of the tabs"], ["/", "the prompt"], ["f", "find a head (heads)"], ["← →", "head before, next head"],
  ["↑ ↓", "layer above, layer below"], ["Enter", "the head large"], ["o", "the head off or on, in all models"], ["a", "all heads on"],
  ["v", "weighted by values"], ["g", "group the trace"], ["e", "the view enlarged"], ["d", "dark or light"], ["?", "these keys"], ["Escape", "back to the heads"],
];

export function makeHelp(): HTMLDialogElement {
  const dialog = h("dialog", { class: "help", "aria-label": "keys" }, h("h2", {}, "Keys"),
    h("dl", {}, ...kKeys.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
    h("form", { method: "dialog" }, h("button", { class: "plain" }, "close")));
  return dialog;
}

const typing = (target: EventTarget | null) =>
  target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;

export function listenKeys(room: Room, actions: KeyActions): void {
  const { store } = room;
  const table: Record<string, () => void> = {
    "/": () => { actions.prompt.focus(); actions.prompt.select(); },
    "f": () => { store.set({ view: "heads" }); document.querySelector<HTMLInputElement>("#view-heads input[type=search]")?.focus(); },
    "ArrowLeft": () => actions.step(-1, false), "ArrowRight": () => actions.step(1, false),
    "ArrowUp": () => actions.step(-1, true), "ArrowDown": () => actions.step(1, true),
    "Enter": () => store.set({ view: "head" }),
    "o": () => store.toggleHead(store.state.head, room.api.models.map((model) => model.name)),
    "a": () => store.set({ off: {} }),
    "v": () => store.set({ weights: store.state.weights === "value" ? "attention" : "value" }),
    "g": () => store.set({ group: !store.state.group }),
    "e": () => actions.enlarge(),
    "d": () => actions.dark(),
    "?": () => actions.help.showModal(),
    "Escape": () => store.set({ view: "heads" }),
  };
  addEventListener("keydown", (event) => {
    if (typing(event.target)) { if (event.key === "Escape") (event.target as HTMLElement).blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || !actions.active()) return;
    if (event.target instanceof HTMLButtonElement && (event.key === "Enter" || event.key === " ")) return;
    const view = /^[1-9]$/.test(event.key) ? actions.views[Number(event.key) - 1] : undefined;
    const action = view ? () => store.set({ view }) : table[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
