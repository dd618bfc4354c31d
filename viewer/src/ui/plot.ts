// A canvas that draws itself when it is seen, resized or told to, at the screen's resolution; and the same drawing as SVG or PNG.
import { CanvasSurface, SvgSurface, type Surface } from "../draw/surface.ts";
import type { Theme } from "../draw/theme.ts";
import { h } from "./dom.ts";

export interface Drawing {
  title: string;
  least?(): number;   // the width below which its labels do not fit
  height(width: number): number;
  paint(surface: Surface, width: number, height: number, theme: Theme): void;
}

export interface Pointing { x: number; y: number; event: PointerEvent | MouseEvent }

export class Plot {
  readonly element: HTMLCanvasElement;
  private due = false;

  constructor(readonly drawing: Drawing, private readonly theme: () => Theme, label: string) {
    this.element = h("canvas", { class: "plot", role: "img", "aria-label": label });
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  label(text: string): void { this.element.setAttribute("aria-label", text); }

  redraw(): void {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => { this.due = false; this.drawNow(); });
  }

  onPoint(move: (at: Pointing) => void, leave: () => void): void {
    this.element.addEventListener("pointermove", (event) => move(this.place(event)));
    this.element.addEventListener("pointerleave", leave);
  }
  onPress(press: (at: Pointing) => void): void {
    this.element.addEventListener("click", (event) => press(this.place(event)));
  }
  place(event: PointerEvent | MouseEvent): Pointing {
    const box = this.element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top, event };
  }

  private drawNow(): void {
    const width = this.element.clientWidth;
    if (width === 0) return;  // not on the page now
    const height = Math.max(1, Math.round(this.drawing.height(width)));
    paintCanvas(this.element, this.drawing, width, height, this.theme(), window.devicePixelRatio || 1);
    this.element.style.height = `${height}px`;
  }
}

export function paintCanvas(canvas: HTMLCanvasElement, drawing: Drawing, width: number, height: number, theme: Theme, scale: number): void {
  const [w, t] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== t) { canvas.width = w; canvas.height = t; }
  const context = canvas.getContext("2d")!;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  drawing.paint(new CanvasSurface(context), width, height, theme);
}

export function drawSvg(drawing: Drawing, width: number, theme: Theme): string {
  const height = drawing.height(width), surface = new SvgSurface();
  surface.rect(0, 0, width, height, theme.paper);
  drawing.paint(surface, width, height, theme);
  return surface.document(width, height, drawing.title);
}

// PNG at twice the size, less where that would be larger than browsers allow.
export function drawPng(drawing: Drawing, width: number, theme: Theme): Promise<Blob> {
  const height = drawing.height(width), scale = Math.min(2, 16000 / height), canvas = document.createElement("canvas");
  paintCanvas(canvas, {
    ...drawing, title: drawing.title, height: () => height,
    paint: (surface, w, t, colours) => { surface.rect(0, 0, w, t, colours.paper); drawing.paint(surface, w, t, colours); },
  }, width, height, theme, scale);
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("the picture is too large"))), "image/png"));
}
