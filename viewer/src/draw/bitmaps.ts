// A head's pattern as a small picture, made once for each (prompt, head, size, theme) and kept while it is in use. Where a
// picture has fewer pixels than cells, a pixel takes the strongest cell under it: a lone edge stays visible.
import type { Patterns } from "../data/tensor.ts";
import type { Theme } from "./theme.ts";

const kKept = 4096;

export function poolStrongest(shades: Float32Array, cells: number, side: number): Float32Array {
  const out = new Float32Array(side * side);  // [query, key], 0 above the diagonal
  let entry = 0;
  for (let query = 0; query < cells; ++query) {
    const row = Math.floor((query * side) / cells) * side;
    for (let key = 0; key <= query; ++key, ++entry) {
      const at = row + Math.floor((key * side) / cells);
      if (shades[entry] > out[at]) out[at] = shades[entry];
    }
  }
  return out;
}

function paint(pooled: Float32Array, side: number, theme: Theme): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d")!, image = context.createImageData(side, side), ramp = theme.ramp;
  for (let query = 0; query < side; ++query) {
    for (let key = 0; key <= query; ++key) {
      const at = query * side + key, n = 3 * Math.round(255 * pooled[at]);
      image.data[4 * at] = ramp[n];
      image.data[4 * at + 1] = ramp[n + 1];
      image.data[4 * at + 2] = ramp[n + 2];
      image.data[4 * at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export class Bitmaps {
  private readonly made = new Map<string, HTMLCanvasElement>();
  private readonly names = new WeakMap<Patterns, number>();
  private count = 0;

  // `pixels`: how many the picture covers along its edge on the screen.
  of(patterns: Patterns, head: string, pixels: number, high: number, theme: Theme): HTMLCanvasElement {
    if (!this.names.has(patterns)) this.names.set(patterns, this.count++);
    const side = Math.max(1, Math.min(patterns.header.cells, Math.floor(pixels)));
    const key = `${this.names.get(patterns)} ${head} ${side} ${high} ${theme.paper}`;
    let picture = this.made.get(key);
    if (!picture) {
      picture = paint(poolStrongest(patterns.shades(head, high), patterns.header.cells, side), side, theme);
      this.made.set(key, picture);
      if (this.made.size > kKept) this.made.delete(this.made.keys().next().value!);
    }
    return picture;
  }
}
