// The view's drawing as large as one likes: laid out for a wide screen and scrolled where the screen is narrow. + and - (or their
// buttons) change its size, Escape closes it.
import type { Theme } from "../draw/theme.ts";
import { h } from "./dom.ts";
import { paintCanvas, type Drawing } from "./plot.ts";

const kWide = 1000, kStep = 1.5, kLeast = 0.5, kMost = 4, kPixels = 14_000;   // browsers allow about 16,000 pixels a side

export class Enlarged {
  private readonly canvas = h("canvas", { role: "img", "aria-label": "nothing enlarged" });
  private readonly frame = h("div", { class: "enlarged-frame", tabIndex: 0, role: "region", "aria-label": "the drawing: arrow keys scroll" }, this.canvas);
  readonly element: HTMLDialogElement;
  private drawing: Drawing | null = null;
  private theme: Theme | null = null;
  private size = 1;

  constructor() {
    const button = (label: string, sign: string, by: number) =>
      h("button", { type: "button", class: "plain", "aria-label": label, title: label, onclick: () => this.resize(by) }, sign);
    this.element = h("dialog", { class: "enlarged", "aria-label": "enlarged view" },
      h("form", { method: "dialog", class: "controls" }, button("smaller (-)", "−", 1 / kStep), button("larger (+)", "+", kStep), h("button", { class: "plain" }, "close")), this.frame);
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "+" || event.key === "=") this.resize(kStep);
      else if (event.key === "-") this.resize(1 / kStep);
    });
    this.element.addEventListener("close", () => { this.drawing = null; this.canvas.width = this.canvas.height = 0; });
  }

  show(drawing: Drawing, theme: Theme): void {
    [this.drawing, this.theme, this.size] = [drawing, theme, 1];
    this.canvas.setAttribute("aria-label", drawing.title);
    this.element.showModal();
    this.paint();
    this.frame.scrollTo(0, 0);
    this.frame.focus();
  }

  private resize(by: number): void {
    this.size = Math.min(kMost, Math.max(kLeast, this.size * by));
    this.paint();
  }

  private paint(): void {
    if (!this.drawing) return;
    const width = Math.max(kWide, this.drawing.least?.() ?? 0), height = Math.max(1, Math.round(this.drawing.height(width)));
    const scale = Math.min(this.size * (window.devicePixelRatio || 1), kPixels / Math.max(width, height));
    paintCanvas(this.canvas, this.drawing, width, height, this.theme!, scale);
    this.canvas.style.width = `${width * this.size}px`;
    this.canvas.style.height = `${height * this.size}px`;
  }
}
