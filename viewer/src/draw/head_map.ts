// One head large, each model's beside the other: queries downwards, keys to the right, tokens along both edges.
import type { Patterns } from "../data/tensor.ts";
import { markToken } from "../ui/dom.ts";
import { Bitmaps } from "./bitmaps.ts";
import type { Surface } from "./surface.ts";
import { modelColour, type Theme } from "./theme.ts";

export interface MapModel { name: string; note: string; tokens: string[]; patterns: Patterns | null; off: boolean }
export interface HeadMap { head: string; models: MapModel[]; high: number; labels: boolean }
export interface MapPlace { left: number[]; top: number[]; side: number; label: number; height: number }

const kTitle = 42;

export function placeMap(map: HeadMap, width: number): MapPlace {
  const count = map.models.length, stacked = map.labels && width < 620 && count > 1, across = stacked ? 1 : count;
  const label = map.labels ? (width < 620 ? 64 : 78) : 0, between = map.labels ? 26 : 14;
  const room = (width - between * (across - 1)) / across;
  const side = Math.max(40, Math.min(760, room - label));
  const title = map.labels ? kTitle : 20, block = title + side + label + (stacked ? 18 : 0);
  return {
    side, label, height: block * (stacked ? count : 1) + 4,
    left: map.models.map((_, n) => label + (stacked ? 0 : n * (room + between))),
    top: map.models.map((_, n) => title + (stacked ? n * block : 0)),
  };
}

export interface MapHit { model: number; query: number; key: number }

export function hitMap(map: HeadMap, place: MapPlace, x: number, y: number): MapHit | null {
  for (let n = 0; n < map.models.length; ++n) {
    const patterns = map.models[n].patterns;
    const across = (x - place.left[n]) / place.side, down = (y - place.top[n]) / place.side;
    if (!patterns || across < 0 || across >= 1 || down < 0 || down >= 1) continue;
    const at = (share: number) => patterns.tokenOf(Math.floor(share * patterns.header.cells));
    return { model: n, query: at(down), key: at(across) };
  }
  return null;
}

const bitmaps = new Bitmaps();
const shorten = (token: string, most: number) => { const marked = markToken(token); return marked.length > most ? marked.slice(0, most - 1) + "…" : marked; };

function paintLabels(surface: Surface, model: MapModel, x: number, y: number, side: number, lit: ReadonlySet<number>, theme: Theme): void {
  const count = model.tokens.length, unit = side / count, every = Math.max(1, Math.ceil(11 / unit)), size = Math.min(12, Math.max(9, unit - 1));
  model.tokens.forEach((token, n) => {
    const on = lit.has(n), near = [...lit].some((other) => other !== n && Math.abs(other - n) * unit < 10);
    if (!on && (n % every !== 0 || near)) return;
    const style = { size: on ? 12 : size, fill: on ? theme.accent : theme.soft, bold: on }, middle = (n + 0.5) * unit;
    surface.text(shorten(token, 11), x - 6, y + middle, { ...style, align: "right" });
    surface.text(shorten(token, 11), x + middle, y + side + 7, { ...style, align: "right", turn: -58 });
  });
}

export function paintMap(surface: Surface, map: HeadMap, place: MapPlace, lit: readonly number[], pixelRatio: number, theme: Theme): void {
  map.models.forEach((model, n) => {
    const x = place.left[n], y = place.top[n], side = place.side, patterns = model.patterns;
    surface.text(model.name, x, y - (map.labels ? 28 : 10), { size: map.labels ? 14 : 11, bold: true, fill: modelColour(theme, n) });
    if (map.labels) surface.text(model.note, x, y - 11, { size: 12, fill: theme.soft });
    surface.rect(x, y, side, side, theme.card);
    if (patterns?.has(map.head)) {
      surface.fade(model.off ? 0.3 : 1);
      surface.image(bitmaps.of(patterns, map.head, side * pixelRatio, map.high, theme), x, y, side, side);
      const unit = side / patterns.header.cells;
      surface.fade(0.22);
      for (const token of lit) {
        const at = patterns.cellOf(token) * unit;
        surface.rect(x, y + at, at + unit, Math.max(1, unit), theme.mark);
        surface.rect(x + at, y + at, Math.max(1, unit), side - at, theme.mark);
      }
      surface.fade(1);
    }
    surface.rect(x + 0.5, y + 0.5, side - 1, side - 1, null, theme.line);
    if (model.off) surface.text("off", x + side - 8, y + 14, { size: 13, bold: true, fill: theme.lower, align: "right" });
    if (map.labels) paintLabels(surface, model, x, y, side, new Set(lit), theme);
  });
}
