// State <-> the address's hash. Only what differs from the start is written; what cannot be read is left as it was.
import { startState, type Link } from "./state.ts";

const kViews = ["heads", "head", "statistics", "scatter", "circuit", "trace", "lens", "next", "training"];
const kOrders = ["layer", "importance", "strength"];
const isHead = (text: string) => /^L\d{1,3}H\d{1,3}$/.test(text);
const heads = (text: string) => text.split(",").filter(isHead);

export function encodeLink(state: Link, prompt: string): string {
  const start = startState(), out = new URLSearchParams();
  const put = (key: string, value: string, usual: string) => { if (value !== usual) out.set(key, value); };
  put("prompt", state.prompt, prompt);
  put("head", state.head, start.head);
  put("order", state.order, start.order);
  put("classes", state.classes.join(","), "");
  put("search", state.search, "");
  put("weights", state.weights, start.weights);
  put("task", state.task, "");
  put("scatter", state.scatter.join(","), "");
  put("sort", state.sort, start.sort);
  put("table", state.table, "");
  put("group", state.group ? "yes" : "no", "yes");
  put("pins", state.pins.join(","), "");
  for (const [model, off] of Object.entries(state.off)) if (off.length) out.set(`off.${model}`, off.join(","));
  const rest = out.toString();
  return `#${state.view}${rest ? "?" + rest : ""}`;
}

export function decodeLink(hash: string): Partial<Link> {
  const [view, rest = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const read = new URLSearchParams(rest), out: Partial<Link> = {};
  if (kViews.includes(view)) out.view = view as Link["view"];
  const text = (key: string) => read.get(key);
  const list = (key: string) => text(key)?.split(",").filter((one) => one !== "");
  if (text("prompt") !== null) out.prompt = text("prompt")!;
  if (isHead(text("head") ?? "")) out.head = text("head")!;
  if (kOrders.includes(text("order") ?? "")) out.order = text("order") as Link["order"];
  if (list("classes")) out.classes = list("classes")!;
  if (text("search") !== null) out.search = text("search")!;
  if (text("weights") === "value") out.weights = "value";
  if (text("task") !== null) out.task = text("task")!;
  if (text("scatter") !== null) out.scatter = heads(text("scatter")!);
  if (text("sort") !== null) out.sort = text("sort")!;
  if (text("table") !== null) out.table = text("table")!;
  if (text("group") === "no") out.group = false;
  if (list("pins")) out.pins = list("pins")!;
  for (const [key, value] of read) {
    if (key.startsWith("off.")) out.off = { ...out.off, [key.slice(4)]: heads(value) };
  }
  return out;
}
