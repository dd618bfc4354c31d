// Elements without markup: whatever text they hold stays text.

type Child = Node | string | null | undefined | false;
type Properties = { [name: string]: unknown };

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, properties: Properties = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener);
    else if (name === "class") element.className = String(value);
    else if (name in element && !name.includes("-")) (element as unknown as Properties)[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

export const markToken = (token: string): string =>
  token === "" ? "∅" : token.replace(/\r?\n/g, "↵").replace(/\t/g, "⇥").replace(/^ | $/g, "·").replace(/ /g, "\u00a0");

export function percent(share: number, digits = 3): string {
  if (share >= 0.9995) return "100 %";
  if (share > 0 && share < 0.00005) return "< 0.01 %";
  const value = 100 * share;
  return `${value >= 10 ? value.toFixed(Math.max(0, digits - 2)) : value >= 1 ? value.toFixed(digits - 1) : value.toFixed(2)} %`;
}

export const countHeads = (count: number): string => (count === 1 ? "1 head" : `${count} heads`);

export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(1).replace("-", "−");
  return (size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(3)).replace("-", "−");
}

export const placeOf = (head: string): { layer: number; head: number } => {
  const [, layer, index] = /^L(\d+)H(\d+)$/.exec(head) ?? ["", "0", "0"];
  return { layer: Number(layer), head: Number(index) };
};

// What a canvas shows, as a table that is read and not seen.
export function unseenTable(caption: string, heads: string[], rows: string[][]): HTMLTableElement {
  return h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map(([first, ...cells]) => h("tr", {}, h("th", { scope: "row" }, first), ...cells.map((cell) => h("td", {}, cell))))));
}
