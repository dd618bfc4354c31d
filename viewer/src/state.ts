// What the page shows, in one place. Views read it and change it through `set`; every change is told to all of them, and
// the part in `Link` is kept in the address (link.ts), so that an address is a view.

export type ViewName = "heads" | "head" | "statistics" | "scatter" | "circuit" | "trace" | "lens" | "next" | "training";

export interface Link {
  view: ViewName;
  prompt: string;
  head: string;                      // the one shown large
  off: Record<string, string[]>;     // heads switched off, by model
  classes: string[];                 // shown classes; none: all
  order: "layer" | "importance" | "strength";
  search: string;
  weights: "attention" | "value";
  task: string;                      // the circuit's; empty: the prompt's own
  scatter: string[];                 // heads of the scatter matrix; none: chosen by the program
  sort: string;                      // the table's column, "-" before it: downwards
  table: string;                     // the table's model, or "change"
  group: boolean;                    // the trace's nodes, gathered by token and layer
  pins: string[];                    // pinned nodes of the trace
}

export interface Hover {
  tokens: readonly number[];         // positions that light up
  head: string | null;
}

export interface State extends Link { hover: Hover; dark: boolean }

export const kNothing: Hover = { tokens: [], head: null };

export function startState(): State {
  return {
    view: "heads", prompt: "", head: "", off: {}, classes: [], order: "layer", search: "", weights: "attention", task: "",
    scatter: [], sort: "name", table: "", group: true, pins: [], hover: kNothing, dark: false,
  };
}

export type Listener = (state: State, changed: ReadonlySet<keyof State>) => void;

export class Store {
  private listeners: Listener[] = [];
  constructor(private current: State) {}

  get state(): State { return this.current; }

  set(change: Partial<State>): void {
    const changed = new Set<keyof State>();
    for (const key of Object.keys(change) as (keyof State)[]) {
      if (this.current[key] !== change[key]) changed.add(key);
    }
    if (changed.size === 0) return;
    this.current = { ...this.current, ...change };
    for (const listener of this.listeners) listener(this.current, changed);
  }

  subscribe(listener: Listener): void { this.listeners.push(listener); }

  hoverTokens(tokens: readonly number[]): void {
    const now = this.current.hover.tokens;
    if (now.length === tokens.length && now.every((token, n) => token === tokens[n])) return;
    this.set({ hover: { ...this.current.hover, tokens } });
  }

  hoverHead(head: string | null): void {
    if (this.current.hover.head !== head) this.set({ hover: { ...this.current.hover, head } });
  }

  // A head off in every named model, or on again where it is off in all of them.
  toggleHead(head: string, models: string[]): void {
    const off = { ...this.current.off };
    const everywhere = models.every((model) => off[model]?.includes(head));
    for (const model of models) {
      const others = (off[model] ?? []).filter((one) => one !== head);
      off[model] = everywhere ? others : [...others, head];
    }
    this.set({ off });
  }
}
