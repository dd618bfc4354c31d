// Every head of every model as a small square: models side by side, one scale. A square's upper right half is empty in any
// causal model, so the head's name stands there. Only squares between `top` and `bottom` are drawn.
import type { Patterns } from "../data/tensor.ts";
import { Bitmaps } from "./bitmaps.ts";
import type { Surface } from "./surface.ts";
import { modelColour, type Theme } from "./theme.ts";

export interface GridModel {
  name: string; note: string; heads: string[];         // in the order drawn
  patterns: Patterns | null;
  faded: (head: string) => boolean;                     // does not meet the filter
  off: ReadonlySet<string>;
}

export interface Grid { models: GridModel[]; columns: number; high: number }

export interface GridLook {
  hoverHead: string | null; selected: string; hoverTokens: readonly number[]; pixelRatio: number;
}

export interface GridPlace { columns: number; cell: number; gap: number; between: number; left: number[]; rows: number; height: number }

// Columns: a layer's heads where they fit, else as many as do.
export function placeGrid(grid: Grid, width: number): GridPlace {
  const count = grid.models.length, between = width < 560 ? 16 : 36, room = (width - between * (count - 1)) / count;
  const smallest = width < 560 ? 19 : 38, gap = width < 560 ? 2 : 5;
  const fitting = Math.max(1, Math.floor((room + gap) / (smallest + gap)));
  const columns = Math.min(fitting, grid.columns);
  const cell = Math.min(104, Math.floor((room - gap * (columns - 1)) / columns));
  const rows = Math.max(0, ...grid.models.map((model) => Math.ceil(model.heads.length / columns)));
  const left = grid.models.map((_, n) => Math.round(n * (room + between)));
  return { columns, cell, gap, between, left, rows, height: rows * (cell + gap) };
}

export interface GridHit { model: number; head: string; query: number; key: number }

export function hitGrid(grid: Grid, place: GridPlace, x: number, y: number): GridHit | null {
  for (let n = grid.models.length - 1; n >= 0; --n) {
    const across = x - place.left[n];
    if (across < 0) continue;
    const step = place.cell + place.gap, column = Math.floor(across / step), row = Math.floor(y / step);
    const head = column < place.columns ? grid.models[n].heads[row * place.columns + column] : undefined;
    if (!head) return null;
    const cells = grid.models[n].patterns?.header.cells ?? 1;
    const cellOf = (offset: number) => Math.min(cells - 1, Math.floor((offset / place.cell) * cells));
    return { model: n, head, key: cellOf(across - column * step), query: cellOf(y - row * step) };
  }
  return null;
}

const bitmaps = new Bitmaps();

function paintHead(surface: Surface, grid: Grid, model: GridModel, head: string, x: number, y: number, side: number, look: GridLook, theme: Theme): void {
  const off = model.off.has(head), faded = model.faded(head), patterns = model.patterns;
  surface.fade(faded ? 0.14 : off ? 0.35 : 1);
  surface.rect(x, y, side, side, theme.card);
  if (patterns?.has(head)) surface.image(bitmaps.of(patterns, head, side * look.pixelRatio, grid.high, theme), x, y, side, side);
  if (patterns && !faded) {
    for (const token of look.hoverTokens) {
      const unit = side / patterns.header.cells, at = patterns.cellOf(token) * unit, size = Math.max(1, unit);
      surface.fade(0.3);
      surface.rect(x, y + at, at + unit, size, theme.mark);
      surface.rect(x + at, y + at, size, side - at, theme.mark);
    }
  }
  surface.fade(faded ? 0.3 : 1);
  surface.rect(x + 0.5, y + 0.5, side - 1, side - 1, null, theme.line, 1, 2);
  if (side >= 36) surface.text(head, x + side - 3, y + 8, { size: Math.min(10, side / 5.2), fill: off ? theme.lower : theme.soft, align: "right" });
  if (off) surface.line([[x + 2, y + side - 2], [x + side * 0.72, y + side * 0.28]], theme.lower, 2.5);
  surface.fade(1);
  if (head === look.selected) surface.rect(x - 1.5, y - 1.5, side + 3, side + 3, null, theme.ink, 2, 3);
  if (head === look.hoverHead) surface.rect(x - 1.5, y - 1.5, side + 3, side + 3, null, theme.mark, 2.5, 3);
}

export function paintGrid(surface: Surface, grid: Grid, place: GridPlace, look: GridLook, theme: Theme, top: number, bottom: number, down = 0): void {
  const step = place.cell + place.gap;
  const first = Math.max(0, Math.floor(top / step)), last = Math.min(place.rows - 1, Math.floor(bottom / step));
  grid.models.forEach((model, n) => {
    const end = Math.min(model.heads.length, (last + 1) * place.columns);
    for (let index = first * place.columns; index < end; ++index) {
      const column = index % place.columns, row = Math.floor(index / place.columns);
      paintHead(surface, grid, model, model.heads[index], place.left[n] + column * step, row * step - top + down, place.cell, look, theme);
    }
  });
}

// Above each model's squares, for a picture that leaves the page.
export function paintGridTitles(surface: Surface, grid: Grid, place: GridPlace, theme: Theme): void {
  grid.models.forEach((model, n) => {
    surface.text(model.name, place.left[n], 14, { size: 15, bold: true, fill: modelColour(theme, n) });
    surface.text(model.note, place.left[n], 34, { size: 12, fill: theme.soft });
  });
}
