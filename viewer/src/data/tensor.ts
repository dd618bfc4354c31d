// "OWT1": four letters, a u32 N, N bytes of JSON, then the elements (docs/openapi). Patterns are causal entries row by
// row, so entry (query q, key k) of a head stands at q (q + 1) / 2 + k; u8 holds the value's root: scale (byte / 255)^2.

export interface PatternHeader {
  model: string; weights: string; tokens: number; cells: number; dtype: "u8" | "f32"; shape: [number, number];
  heads: string[]; scale: number[];
}

export class Patterns {
  private readonly rows: Map<string, number>;

  constructor(readonly header: PatternHeader, readonly data: Uint8Array | Float32Array) {
    this.rows = new Map(header.heads.map((name, row) => [name, row]));
  }

  has(head: string): boolean { return this.rows.has(head); }

  // The largest value of all heads here: one scale for all of them.
  get largest(): number {
    return this.header.scale?.reduce((most, one) => Math.max(most, one), 0) ?? 0;
  }

  value(head: string, query: number, key: number): number {
    const row = this.rows.get(head);
    if (row === undefined || key > query) return 0;
    const entry = this.data[row * this.header.shape[1] + (query * (query + 1)) / 2 + key];
    return this.header.dtype === "u8" ? this.header.scale[row] * (entry / 255) ** 2 : entry;
  }

  // Shades in [0, 1], root of value / high, of every entry of one head; `out` has shape[1] places.
  shades(head: string, high: number): Float32Array {
    const row = this.rows.get(head) ?? 0, n = this.header.shape[1], out = new Float32Array(n);
    const factor = this.header.dtype === "u8" ? Math.sqrt(this.header.scale[row] / high) / 255 : 1;
    for (let i = 0; i < n; ++i) {
      const entry = this.data[row * n + i];
      out[i] = Math.min(1, this.header.dtype === "u8" ? entry * factor : Math.sqrt(Math.max(0, entry) / high));
    }
    return out;
  }

  cellOf(token: number): number {
    const { cells, tokens } = this.header;
    return cells >= tokens ? token : Math.min(cells - 1, Math.floor(((token + 0.5) * cells) / tokens));
  }

  tokenOf(cell: number): number {
    return this.header.cells >= this.header.tokens ? cell : Math.floor((cell * this.header.tokens) / this.header.cells);
  }
}

export function decodePatterns(buffer: ArrayBuffer): Patterns {
  const view = new DataView(buffer);
  const magic = String.fromCharCode(...new Uint8Array(buffer, 0, 4));
  if (magic !== "OWT1") throw new Error(`not a tensor: it begins with ${JSON.stringify(magic)}`);
  const length = view.getUint32(4, true), start = 8 + length;
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length))) as PatternHeader;
  const count = header.shape[0] * header.shape[1];
  const wanted = start + count * (header.dtype === "f32" ? 4 : 1);
  if (buffer.byteLength !== wanted) throw new Error(`a tensor of ${buffer.byteLength} bytes where ${wanted} were said`);
  return new Patterns(header, header.dtype === "f32" ? new Float32Array(buffer, start, count) : new Uint8Array(buffer, start, count));
}
