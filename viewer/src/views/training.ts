// A sparsify run while it trains: its loss and target, its kept edges, and the frontier between them, read every two seconds. The
// points of a `--frontier` run are read one after the other and stand in one line.
import type { MetricsLine, Training } from "../data/records.ts";
import { Axes, type Chart, type Point } from "../draw/chart.ts";
import type { Surface } from "../draw/surface.ts";
import type { Theme } from "../draw/theme.ts";
import { h, percent } from "../ui/dom.ts";
import { Plot, type Drawing } from "../ui/plot.ts";
import type { Room, View } from "../ui/view.ts";

const kTall = 250, kEvery = 2000, kSeldom = 30000;

// Values of one key over tokens seen; lines that lack it are passed over.
export function curveOf(lines: MetricsLine[], key: string, at = "tokens"): Point[] {
  return lines.filter((line) => typeof line[key] === "number" && typeof line[at] === "number").map((line) => [line[at] as number, line[key] as number]);
}

// Lines of a point, set behind those before it: its tokens and steps count from where they ended.
export function follow(before: MetricsLine[], lines: MetricsLine[], start: { tokens: number; step: number }): MetricsLine[] {
  const shift = (line: MetricsLine, key: "tokens" | "step") => (typeof line[key] === "number" ? { [key]: line[key] + start[key] } : {});
  return [...before, ...lines.map((line) => ({ ...line, ...shift(line, "tokens"), ...shift(line, "step") }))];
}

export class TrainingView implements View {
  readonly element: HTMLElement;
  private readonly said = h("p", { class: "said-of", role: "status" });
  private readonly plot: Plot;
  private lines: MetricsLine[] = [];
  private training: Training | null = null;
  private timer = 0;
  private point = 0;                                // the one that is read; 0: the run has none
  private done: MetricsLine[] = [];                 // of the points before it
  private from = 0;

  constructor(private readonly room: Room) {
    this.plot = new Plot(this.drawing(), () => room.theme(), "training curves");
    this.element = h("section", { class: "view", id: "view-training", "aria-label": "training" }, this.said, this.plot.element);
  }

  update(): void {
    if (!this.timer) void this.read();
    this.plot.redraw();
  }

  exported(): { drawing: Drawing; records: unknown } {
    return { drawing: this.drawing(), records: { name: this.training?.name, lines: this.lines, frontier: this.training?.frontier ?? [], result: this.training?.result ?? null } };
  }

  // Asks for the lines since the last ones, seldom once the run has ended: it may be resumed. A page that is not seen asks nothing.
  private async read(): Promise<void> {
    this.timer = 1;
    try {
      const seen = document.visibilityState === "visible" && this.element.isConnected;
      if (seen || !this.training) while (await this.readPiece());
      if (this.training?.ended && !this.room.data.live) return;
    } catch (reason) {
      this.said.textContent = (reason as Error).message;
    }
    this.timer = window.setTimeout(() => void this.read(), this.training?.ended ? kSeldom : kEvery);
  }

  // Whether there is more to read at once.
  private async readPiece(): Promise<boolean> {
    const now = this.training = await this.room.data.training(this.from, this.point) as Training;
    if (now.points > 0 && this.point === 0) { this.next(1); return true; }   // the folder's own lines are a copy of its last point's
    if (now.from < this.from) this.lines = this.done;  // a resumed run has dropped lines: told from its start
    const last = this.done[this.done.length - 1];
    this.lines = follow(this.lines, now.lines, { tokens: last?.tokens ?? 0, step: last?.step ?? 0 });
    this.from = now.next;
    this.say();
    this.plot.label(`training curves; ${this.said.textContent}`);
    this.plot.redraw();
    if (now.lines.length > 0 && now.from < now.next && now.result) return true;   // a long log comes in pieces
    if (now.result && this.point < now.points) { this.next(this.point + 1); return true; }
    return false;
  }

  private next(point: number): void {
    this.point = point;
    this.from = 0;
    this.done = this.lines;
  }

  private say(): void {
    const last = this.lines[this.lines.length - 1], { name, points, ended, control } = this.training!;
    if (!last) { this.said.textContent = control ? `${name}: the dense control is trained first: ${describeControl(control)}` : `${name}: no line yet`; return; }
    const kept = typeof last.kept_edges === "number" ? `, ${percent(last.kept_edges)} of edges as drawn` : "";
    const loss = typeof last.loss === "number" ? last.loss.toFixed(3) : "–", at = points === 0 ? "" : ended ? `${points} points, ` : `point ${this.point} of ${points} begun, `;
    this.said.textContent = `${name}: ${at}step ${last.step ?? "?"}, loss ${loss}${kept}${ended ? ", done" : ", training"}`;
  }

  private charts(theme: Theme): Chart[] {
    const tokens = "tokens", soft = theme.faint, [dense, sparse] = theme.models;
    const frontier: Point[] = (this.training?.frontier ?? []).filter((point) => point.kept_edges !== null && point.held_out_loss !== null)
      .map((point) => [point.kept_edges!, point.held_out_loss!]);
    const path: Point[] = this.lines.filter((line) => typeof line.held_out_kept_edges === "number" && typeof line.held_out_loss === "number")
      .map((line) => [line.held_out_kept_edges as number, line.held_out_loss as number]);
    return [
      { x: tokens, y: "nats per token", series: [
        { name: "loss", colour: soft, points: curveOf(this.lines, "loss") }, { name: "average", colour: dense, points: curveOf(this.lines, "average_loss") },
        { name: "target", colour: theme.mark, points: curveOf(this.lines, "target") }, { name: "held out", colour: theme.ink, points: curveOf(this.lines, "held_out_loss"), dots: true }] },
      { x: tokens, y: "kept edges", logY: true, series: [
        { name: "as drawn", colour: sparse, points: curveOf(this.lines, "kept_edges") }, { name: "held out", colour: theme.ink, points: curveOf(this.lines, "held_out_kept_edges"), dots: true }] },
      { x: "kept edges", y: "held-out loss", logX: true, series: [
        { name: "this run", colour: sparse, points: path, dots: true }, { name: "frontier", colour: theme.mark, points: frontier, dots: true }] },
      { x: tokens, y: "open heads", series: [{ name: "open heads", colour: sparse, points: curveOf(this.lines, "open_heads") }] },
    ];
  }

  private drawing(): Drawing {
    const across = (width: number) => (width < 700 ? 1 : 2);
    return {
      title: "training", height: (width) => Math.ceil(4 / across(width)) * (kTall + 26),
      paint: (surface, width, _height, theme) => this.charts(theme).forEach((chart, n) => {
        const columns = across(width), w = width / columns, x = (n % columns) * w, y = Math.floor(n / columns) * (kTall + 26);
        this.paintChart(surface, chart, x, y + 22, w - 12, theme);
      }),
    };
  }

  private paintChart(surface: Surface, chart: Chart, x: number, y: number, w: number, theme: Theme): void {
    const filled = { ...chart, series: chart.series.filter((one) => one.points.length > 0) };
    let at = x + 54;
    for (const one of filled.series) {
      surface.rect(at, y - 8, 12, 4, one.colour);
      surface.text(one.name, at + 17, y - 6, { size: 11, fill: theme.soft });
      at += 34 + one.name.length * 6.4;
    }
    if (filled.series.length) new Axes(filled, { x, y, w, h: kTall }).paint(surface, theme);
    else surface.text(`${chart.y}: nothing measured yet`, x + 54, y + 40, { size: 12, fill: theme.soft });
  }
}

function describeControl(line: MetricsLine): string {
  const loss = (key: string, what: string) => (typeof line[key] === "number" ? `, ${what} ${(line[key] as number).toFixed(3)}` : "");
  return `step ${line.step ?? "?"}${loss("loss", "loss")}${loss("held_out_loss", "held out")}`;
}
