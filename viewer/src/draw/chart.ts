// Lines over two axes, and tables as pictures: what small charts here have in common.
import type { Surface } from "./surface.ts";
import type { Theme } from "./theme.ts";

export type Point = readonly [number, number];
export interface Series { name: string; colour: string; points: readonly Point[]; band?: readonly (Point | null)[]; dots?: boolean }
export interface Chart { series: Series[]; x: string; y: string; logX?: boolean; logY?: boolean; fromZero?: boolean; level?: number | null }
export interface Box { x: number; y: number; w: number; h: number }

const kLeft = 54, kBottom = 40, kTop = 14, kRight = 14;

// Round numbers over [low, high], about `count` of them and two at least; where the axis is logarithmic 1, 2 and 5 of every decade,
// or decades alone, or, where it spans too little of one, evenly spaced ones.
export function ticksOf(low: number, high: number, count: number, log = false): number[] {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [];
  if (log && low > 0) {
    const out: number[] = [];
    for (let n = Math.floor(Math.log10(low)); n <= Math.ceil(Math.log10(high)); ++n) {
      for (const m of [1, 2, 5]) { const at = m * 10 ** n; if (at >= low * 0.999 && at <= high * 1.001) out.push(at); }
    }
    if (out.length < 3) return ticksOf(low, high, Math.max(2, count));
    return out.length > 2 * count ? out.filter((at) => Math.abs(Math.log10(at) - Math.round(Math.log10(at))) < 1e-9) : out;
  }
  const raw = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw || 1));
  const steps = [10, 5, 2, 1, 0.5].map((m) => m * power), first = steps.findLastIndex((one) => one >= raw);
  for (const step of steps.slice(Math.max(0, first))) {
    const out: number[] = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) out.push(Math.abs(at) < step * 1e-9 ? 0 : at);
    if (out.length > 1 || high === low) return out;
  }
  return [low];
}

const tickText = (value: number) => Math.abs(value) >= 1e6 ? `${+(value / 1e6).toPrecision(3)} M` : Math.abs(value) >= 1e4 ? `${+(value / 1e3).toPrecision(3)} k` : String(+value.toPrecision(4));

// Around a series' band: its lower ends, then its upper ones back; none where the band has a gap.
function outlineOf({ band, points }: Series): Point[] {
  if (!band || band.length !== points.length || points.length < 2 || band.some((pair) => pair === null)) return [];
  const end = (which: 0 | 1): Point[] => points.map((point, n) => [point[0], band[n]![which]]);
  return [...end(0), ...end(1).reverse()];
}

export class Axes {
  readonly inner: Box;
  readonly low: Point; readonly high: Point;

  constructor(readonly chart: Chart, box: Box) {
    this.inner = { x: box.x + kLeft, y: box.y + kTop, w: Math.max(10, box.w - kLeft - kRight), h: Math.max(10, box.h - kTop - kBottom) };
    const all = chart.series.flatMap((one) => [...one.points, ...outlineOf(one)]).filter((point) => (!chart.logX || point[0] > 0) && (!chart.logY || point[1] > 0));
    const range = (axis: 0 | 1, zero: boolean): [number, number] => {
      const values = all.map((point) => point[axis]);
      if (axis === 1 && chart.level != null) values.push(chart.level);
      let low = Math.min(...values), high = Math.max(...values);
      if (!values.length) return (axis === 0 ? chart.logX : chart.logY) ? [0.1, 1] : [0, 1];   // a logarithmic axis has no 0
      if (zero) { low = Math.min(0, low); high = Math.max(high, 0); }
      return low === high ? [low - (Math.abs(low) * 0.1 || 0.5) * (zero ? 0 : 1), high + (Math.abs(high) * 0.1 || 0.5)] : [low, high];
    };
    const [x0, x1] = range(0, chart.fromZero ?? false), [y0, y1] = range(1, chart.fromZero ?? false);
    this.low = [x0, y0];
    this.high = [x1, y1];
  }

  at(point: Point): [number, number] {
    const share = (value: number, low: number, high: number, log?: boolean) => log
      ? (Math.log(Math.max(value, low)) - Math.log(low)) / (Math.log(high) - Math.log(low)) : (value - low) / (high - low);
    return [this.inner.x + this.inner.w * share(point[0], this.low[0], this.high[0], this.chart.logX),
      this.inner.y + this.inner.h * (1 - share(point[1], this.low[1], this.high[1], this.chart.logY))];
  }

  // The value on the first axis under a place of the picture; linear axes only.
  valueAt(x: number): number { return this.low[0] + ((x - this.inner.x) / this.inner.w) * (this.high[0] - this.low[0]); }

  paint(surface: Surface, theme: Theme): void {
    const { inner, chart } = this, label = { size: 11, fill: theme.soft };
    for (const tick of ticksOf(this.low[1], this.high[1], inner.h / 44, chart.logY)) {
      const [, y] = this.at([this.low[0], tick]);
      surface.line([[inner.x, y], [inner.x + inner.w, y]], theme.line);
      surface.text(tickText(tick), inner.x - 7, y, { ...label, align: "right" });
    }
    for (const tick of ticksOf(this.low[0], this.high[0], inner.w / 70, chart.logX)) {
      surface.text(tickText(tick), this.at([tick, this.low[1]])[0], inner.y + inner.h + 13, { ...label, align: "center" });
    }
    surface.text(chart.x, inner.x + inner.w / 2, inner.y + inner.h + 30, { ...label, align: "center" });
    surface.text(chart.y, inner.x - kLeft + 8, inner.y + inner.h / 2, { ...label, align: "center", turn: -90 });
    if (chart.level != null) {
      const [, y] = this.at([this.low[0], chart.level]);
      surface.line([[inner.x, y], [inner.x + inner.w, y]], theme.soft, 1, [4, 4]);
    }
    for (const one of chart.series) this.paintSeries(surface, one);
  }

  private paintSeries(surface: Surface, one: Series): void {
    const { inner } = this, band = outlineOf(one);
    if (band.length > 0) {
      surface.fade(0.16);
      surface.clip(inner.x, inner.y, inner.w, inner.h, () => surface.area(band.map((point) => this.at(point)), one.colour));
      surface.fade(1);
    }
    if (one.dots) for (const point of one.points) surface.circle(...this.at(point), 4, one.colour);
    if (one.points.length > 1) surface.line(one.points.map((point) => this.at(point)), one.colour, 2);
  }
}

export interface PaintedTable { headings: string[]; rows: string[][]; title: string }

const kRow = 18;
export const tableHeight = (table: PaintedTable): number => (table.rows.length + 1) * kRow + 34;

export function paintTable(surface: Surface, table: PaintedTable, width: number, theme: Theme): void {
  const sizes = table.headings.map((heading, column) =>
    Math.max(heading.length, ...table.rows.slice(0, 500).map((row) => row[column]?.length ?? 0)) + 2);
  const all = sizes.reduce((sum, size) => sum + size, 0), unit = Math.min(8, (width - 16) / all), size = Math.min(12, unit * 1.6);
  surface.text(table.title, 8, 14, { size: 13, bold: true, fill: theme.ink });
  [table.headings, ...table.rows].forEach((row, n) => {
    let x = 8;
    row.forEach((cell, column) => {
      surface.text(cell, x, 34 + n * kRow, { size, fill: n === 0 ? theme.soft : theme.ink, bold: n === 0 });
      x += sizes[column] * unit;
    });
    surface.line([[8, 34 + (n + 0.5) * kRow], [width - 8, 34 + (n + 0.5) * kRow]], theme.line);
  });
}
