// Every head's numbers, one row each, sorted by any of them; how many heads each class has; what differs between the models.
import type { Estimate, HeadStatistics, Statistics } from "../data/records.ts";
import { paintTable, tableHeight, type PaintedTable } from "../draw/chart.ts";
import { modelColour } from "../draw/theme.ts";
import type { State } from "../state.ts";
import { figure, h, placeOf } from "../ui/dom.ts";
import type { Drawing } from "../ui/plot.ts";
import { Waiting, type Room, type View } from "../ui/view.ts";

type Row = { name: string; kind: string; values: (number | null)[] };

export class StatisticsView implements View {
  readonly element: HTMLElement;
  private readonly which: HTMLSelectElement;
  private readonly source = h("select", { "aria-label": "measured on" }, h("option", { value: "" }, "on the sample prompts"), h("option", { value: "prompt" }, "on this prompt"));
  private readonly waiting = new Waiting();
  private readonly table = h("table", { class: "numbers" });
  private readonly changes = h("div", { class: "changes" });
  private record: Statistics | null = null;

  constructor(private readonly room: Room) {
    const { store, api } = room;
    this.which = h("select", { "aria-label": "model" }, ...api.models.map((model) => h("option", { value: model.name }, model.name)),
      api.models.length > 1 ? h("option", { value: "change" }, `change, ${api.models[0].name} to ${api.models[api.models.length - 1].name}`) : null);
    this.which.addEventListener("change", () => store.set({ table: this.which.value }));
    this.source.addEventListener("change", () => this.load());
    this.source.hidden = !room.data.knows("/api/statistics", { prompt: api.prompt });
    this.element = h("section", { class: "view", id: "view-statistics", "aria-label": "statistics" },
      h("div", { class: "controls" }, this.which, this.source), this.waiting.element, this.changes, h("div", { class: "sideways tall" }, this.table));
    this.table.addEventListener("pointerleave", () => store.hoverHead(null));
  }

  update(state: State, changed: ReadonlySet<keyof State>): void {
    if (!this.record || (changed.has("prompt") && this.source.value === "prompt")) this.load();
    if (["sort", "table", "classes", "prompt"].some((key) => changed.has(key as keyof State))) this.fill(state);
    for (const row of this.table.querySelectorAll<HTMLElement>("tr[data-head]")) {
      row.classList.toggle("lit", row.dataset.head === state.hover.head);
      row.classList.toggle("chosen", row.dataset.head === state.head);
    }
  }

  exported(): { drawing: Drawing; records: unknown } | null {
    if (!this.record) return null;
    const { statistics } = this.room.api, table: PaintedTable = {
      title: `statistics: ${this.chosen()}`, headings: ["head", "class", ...statistics.map((one) => one.title)],
      rows: this.rows(this.room.store.state).map((row) => [row.name, row.kind, ...row.values.map(figure)]),
    };
    return {
      drawing: { title: table.title, height: () => tableHeight(table), paint: (surface, width, _height, theme) => paintTable(surface, table, width, theme) },
      records: this.record,
    };
  }

  private load(): void {
    const wish = this.source.value === "prompt" ? { prompt: this.room.store.state.prompt } : {};
    this.waiting.watch((progress) => this.room.data.ask<Statistics>("/api/statistics", wish, progress), (record) => {
      this.record = record;
      this.fill(this.room.store.state);
    });
  }

  private chosen(): string {
    const wanted = this.room.store.state.table, models = this.room.api.models;
    return wanted === "change" || models.some((model) => model.name === wanted) ? wanted : models[models.length - 1].name;
  }

  private rows(state: State): Row[] {
    const record = this.record!, which = this.chosen(), keys = this.room.api.statistics.map((one) => one.key);
    const mean = (head: HeadStatistics, key: string) => (head[key] as Estimate | null | undefined)?.mean ?? null;
    const first = record.models[0], last = record.models[record.models.length - 1];
    const rows = which === "change"
      ? first.heads.map((head) => {
        const twin = last.heads.find((one) => one.name === head.name);
        const change = (key: string) => { const [a, b] = [mean(head, key), twin ? mean(twin, key) : null]; return a === null || b === null ? null : b - a; };
        return { name: head.name, kind: twin && twin.class !== head.class ? `${head.class} → ${twin.class}` : head.class, values: keys.map(change) };
      })
      : (record.models.find((model) => model.name === which) ?? last).heads.map((head) => ({ name: head.name, kind: head.class, values: keys.map((key) => mean(head, key)) }));
    const kept = state.classes.length ? rows.filter((row) => state.classes.some((name) => row.kind.split(" → ").includes(name))) : rows;
    return sortRows(kept, state.sort, keys);
  }

  private fill(state: State): void {
    if (!this.record) return;
    const { api, store } = this.room, rows = this.rows(state);
    this.which.value = this.chosen();
    const heading = (key: string, title: string, meaning: string) => {
      const sorted = state.sort.replace(/^-/, "") === key, down = state.sort.startsWith("-");
      return h("th", { scope: "col", title: meaning, "aria-sort": sorted ? (down ? "descending" : "ascending") : "none" },
        h("button", { type: "button", onclick: () => store.set({ sort: sorted && down ? key : sorted ? `-${key}` : key === "name" || key === "class" ? key : `-${key}` }) },
          title, sorted ? (down ? " ↓" : " ↑") : ""));
    };
    const most = api.statistics.map((_, n) => Math.max(1e-12, ...rows.map((row) => Math.abs(row.values[n] ?? 0))));
    const colour = modelColour(this.room.theme(), Math.max(0, api.models.findIndex((model) => model.name === this.chosen())));
    this.table.replaceChildren(
      h("thead", {}, h("tr", {}, heading("name", "head", "layer and head"), heading("class", "class", "what most of its mass does"),
        ...api.statistics.map((one) => heading(one.key, one.title, one.meaning)))),
      h("tbody", {}, ...rows.map((row) => h("tr", { "data-head": row.name, onclick: () => store.set({ head: row.name }), onpointerenter: () => store.hoverHead(row.name) },
        h("th", { scope: "row" }, row.name), h("td", { class: "kind" }, row.kind), ...row.values.map((value, n) => {
          const bar = h("i", {});
          bar.style.width = `${(100 * Math.abs(value ?? 0)) / most[n]}%`;
          bar.style.background = colour;
          return h("td", {}, bar, figure(value));
        })))));
    this.showChanges();
  }

  private showChanges(): void {
    this.changes.replaceChildren(...this.record!.comparisons.map((one) => h("table", { class: "numbers" },
      h("caption", {}, `${one.dense} and ${one.sparse}`),
      h("thead", {}, h("tr", {}, ...["", one.dense, one.sparse, "difference", "p (Holm)"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, ...one.rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.title), ...[row.dense, row.sparse, row.difference, row.p_holm].map((value) => h("td", {}, figure(value)))))))));
  }
}

// By name (layer, then head), class, or a statistic; nulls last either way.
export function sortRows(rows: Row[], sort: string, keys: string[]): Row[] {
  const down = sort.startsWith("-"), key = sort.replace(/^-/, ""), column = keys.indexOf(key), sign = down ? -1 : 1;
  const place = (row: Row) => { const at = placeOf(row.name); return at.layer * 100_000 + at.head; };
  return [...rows].sort((a, b) => {
    if (column >= 0) {
      const [x, y] = [a.values[column], b.values[column]];
      if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0);
      return sign * (x - y) || place(a) - place(b);
    }
    if (key === "class") return sign * a.kind.localeCompare(b.kind) || place(a) - place(b);
    return sign * (place(a) - place(b));
  });
}
