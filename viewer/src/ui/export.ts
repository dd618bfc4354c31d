// Any view as a file: its drawing as SVG or PNG, its records as JSON.
import type { Theme } from "../draw/theme.ts";
import { drawPng, drawSvg, type Drawing } from "./plot.ts";
import { h } from "./dom.ts";
import type { View } from "./view.ts";

const kWidth = 1200;

function save(blob: Blob, name: string): void {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// What a view shows, as a drawing.
export function drawingOf(view: View): Drawing {
  const made = view.exported();
  if (!made) throw new Error("nothing is drawn here yet");
  return made.drawing;
}

export async function exportView(view: View, name: string, kind: string, theme: Theme): Promise<void> {
  const drawing = drawingOf(view), file = `openwork-${name}.${kind}`;
  if (kind === "svg") save(new Blob([drawSvg(drawing, kWidth, theme)], { type: "image/svg+xml" }), file);
  else if (kind === "png") save(await drawPng(drawing, kWidth, theme), file);
  else save(new Blob([JSON.stringify(view.exported()!.records, null, 1) + "\n"], { type: "application/json" }), file);
}
