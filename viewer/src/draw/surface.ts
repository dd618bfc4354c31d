// What views draw on: a canvas on the page, or an SVG document for export. One set of shapes, so a view is drawn once.

export interface TextStyle {
  size?: number; fill: string; align?: "left" | "center" | "right"; bold?: boolean; mono?: boolean; turn?: number;  // degrees
}

export interface Surface {
  rect(x: number, y: number, w: number, h: number, fill: string | null, stroke?: string | null, width?: number, radius?: number): void;
  line(points: readonly (readonly [number, number])[], stroke: string, width?: number, dash?: readonly number[]): void;
  area(points: readonly (readonly [number, number])[], fill: string): void;
  curve(x0: number, y0: number, x1: number, y1: number, stroke: string, width: number): void;  // upright at both ends
  circle(x: number, y: number, r: number, fill: string | null, stroke?: string | null, width?: number): void;
  text(text: string, x: number, y: number, style: TextStyle): void;  // y: the middle of the line
  image(picture: HTMLCanvasElement, x: number, y: number, w: number, h: number): void;
  fade(alpha: number): void;   // of everything after it
  clip(x: number, y: number, w: number, h: number, inside: () => void): void;
}

const kSans = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif';
const kMono = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const fontOf = (style: TextStyle) => `${style.bold ? "600 " : ""}${style.size ?? 12}px ${style.mono ? kMono : kSans}`;

export class CanvasSurface implements Surface {
  constructor(private readonly on: CanvasRenderingContext2D) {}

  rect(x: number, y: number, w: number, h: number, fill: string | null, stroke: string | null = null, width = 1, radius = 0): void {
    this.on.beginPath();
    if (radius) this.on.roundRect(x, y, w, h, radius);
    else this.on.rect(x, y, w, h);
    this.finish(fill, stroke, width);
  }
  line(points: readonly (readonly [number, number])[], stroke: string, width = 1, dash: readonly number[] = []): void {
    this.path(points);
    this.on.setLineDash([...dash]);
    this.finish(null, stroke, width);
    this.on.setLineDash([]);
  }
  area(points: readonly (readonly [number, number])[], fill: string): void {
    this.path(points);
    this.on.closePath();
    this.finish(fill, null, 0);
  }
  curve(x0: number, y0: number, x1: number, y1: number, stroke: string, width: number): void {
    const bend = (y0 + y1) / 2;
    this.on.beginPath();
    this.on.moveTo(x0, y0);
    this.on.bezierCurveTo(x0, bend, x1, bend, x1, y1);
    this.finish(null, stroke, width);
  }
  circle(x: number, y: number, r: number, fill: string | null, stroke: string | null = null, width = 1): void {
    this.on.beginPath();
    this.on.arc(x, y, r, 0, 2 * Math.PI);
    this.finish(fill, stroke, width);
  }
  text(text: string, x: number, y: number, style: TextStyle): void {
    this.on.font = fontOf(style);
    this.on.fillStyle = style.fill;
    this.on.textAlign = style.align ?? "left";
    this.on.textBaseline = "middle";
    if (!style.turn) { this.on.fillText(text, x, y); return; }
    this.on.save();
    this.on.translate(x, y);
    this.on.rotate((style.turn * Math.PI) / 180);
    this.on.fillText(text, 0, 0);
    this.on.restore();
  }
  image(picture: HTMLCanvasElement, x: number, y: number, w: number, h: number): void {
    this.on.imageSmoothingEnabled = false;
    this.on.drawImage(picture, x, y, w, h);
  }
  fade(alpha: number): void { this.on.globalAlpha = alpha; }
  clip(x: number, y: number, w: number, h: number, inside: () => void): void {
    this.on.save();
    this.on.beginPath();
    this.on.rect(x, y, w, h);
    this.on.clip();
    inside();
    this.on.restore();
  }
  private path(points: readonly (readonly [number, number])[]): void {
    this.on.beginPath();
    points.forEach(([x, y], n) => (n ? this.on.lineTo(x, y) : this.on.moveTo(x, y)));
  }
  private finish(fill: string | null, stroke: string | null, width: number): void {
    if (fill) { this.on.fillStyle = fill; this.on.fill(); }
    if (stroke) { this.on.strokeStyle = stroke; this.on.lineWidth = width; this.on.lineJoin = "round"; this.on.stroke(); }
  }
}

export const escapeXml = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");  // what XML has no way to write

const number = (value: number) => String(Math.round(value * 100) / 100);

export class SvgSurface implements Surface {
  private readonly parts: string[] = [];
  private alpha = 1;
  private clips = 0;

  rect(x: number, y: number, w: number, h: number, fill: string | null, stroke: string | null = null, width = 1, radius = 0): void {
    this.add("rect", { x, y, width: Math.max(0, w), height: Math.max(0, h), ...(radius ? { rx: radius } : {}) }, fill, stroke, width);
  }
  line(points: readonly (readonly [number, number])[], stroke: string, width = 1, dash: readonly number[] = []): void {
    const dashes: Record<string, string> = dash.length ? { "stroke-dasharray": dash.join(" ") } : {};
    this.add("polyline", { points: points.map((p) => p.map(number).join(",")).join(" "), ...dashes }, null, stroke, width);
  }
  area(points: readonly (readonly [number, number])[], fill: string): void {
    this.add("polygon", { points: points.map((p) => p.map(number).join(",")).join(" ") }, fill, null, 0);
  }
  curve(x0: number, y0: number, x1: number, y1: number, stroke: string, width: number): void {
    const [a, b, c, d, bend] = [x0, y0, x1, y1, (y0 + y1) / 2].map(number);
    this.add("path", { d: `M${a} ${b}C${a} ${bend} ${c} ${bend} ${c} ${d}` }, null, stroke, width);
  }
  circle(x: number, y: number, r: number, fill: string | null, stroke: string | null = null, width = 1): void {
    this.add("circle", { cx: x, cy: y, r }, fill, stroke, width);
  }
  text(text: string, x: number, y: number, style: TextStyle): void {
    const anchor = { left: "start", center: "middle", right: "end" }[style.align ?? "left"];
    const turn = style.turn ? ` transform="rotate(${style.turn} ${number(x)} ${number(y)})"` : "";
    this.parts.push(`<text x="${number(x)}" y="${number(y)}" dominant-baseline="central" text-anchor="${anchor}" fill="${style.fill}"` +
      ` font-family="${escapeXml(style.mono ? kMono : kSans)}" font-size="${style.size ?? 12}"${style.bold ? ' font-weight="600"' : ""}` +
      `${this.faded()}${turn} xml:space="preserve">${escapeXml(text)}</text>`);
  }
  image(picture: HTMLCanvasElement, x: number, y: number, w: number, h: number): void {
    this.parts.push(`<image x="${number(x)}" y="${number(y)}" width="${number(w)}" height="${number(h)}"${this.faded()}` +
      ` image-rendering="pixelated" preserveAspectRatio="none" href="${picture.toDataURL()}"/>`);
  }
  fade(alpha: number): void { this.alpha = alpha; }
  clip(x: number, y: number, w: number, h: number, inside: () => void): void {
    const id = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${number(x)}" y="${number(y)}" width="${number(w)}" height="${number(h)}"/></clipPath><g clip-path="url(#${id})">`);
    inside();
    this.parts.push("</g>");
  }
  document(width: number, height: number, title: string): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${number(width)}" height="${number(height)}" viewBox="0 0 ${number(width)} ${number(height)}">` +
      `<title>${escapeXml(title)}</title>\n${this.parts.join("\n")}\n</svg>\n`;
  }

  private faded(): string { return this.alpha < 1 ? ` opacity="${number(this.alpha)}"` : ""; }
  private add(tag: string, values: Record<string, number | string>, fill: string | null, stroke: string | null, width: number): void {
    const written = Object.entries(values).map(([key, value]) => ` ${key}="${typeof value === "number" ? number(value) : value}"`).join("");
    const edge = stroke ? ` stroke="${stroke}" stroke-width="${number(width)}"` : "";
    this.parts.push(`<${tag}${written} fill="${fill ?? "none"}"${edge}${this.faded()}/>`);
  }
}
