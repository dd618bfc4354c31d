// Colours, light and dark. Attention has one palette for all models (the figures' Blues; at night from the paper upwards), so
// that equal shades are equal weights. A model has its own colour only where it is named.

export interface Theme {
  paper: string; card: string; ink: string; soft: string; faint: string; line: string; accent: string;
  raise: string; lower: string; mark: string; models: string[]; ramp: Uint8ClampedArray;  // 256 x RGB
}

const kLightStops = [[255, 255, 255], [222, 235, 247], [190, 215, 237], [150, 196, 223], [107, 174, 214], [66, 146, 198],
  [33, 113, 181], [8, 81, 156], [6, 46, 102], [2, 18, 50]];
const kDarkStops = [[26, 29, 33], [25, 45, 66], [24, 63, 99], [26, 86, 138], [38, 113, 178], [66, 146, 208], [107, 178, 226],
  [157, 206, 240], [205, 230, 248], [245, 250, 255]];

function makeRamp(stops: number[][]): Uint8ClampedArray {
  const out = new Uint8ClampedArray(256 * 3);
  for (let n = 0; n < 256; ++n) {
    const place = (n / 255) * (stops.length - 1), at = Math.min(Math.floor(place), stops.length - 2);
    for (let c = 0; c < 3; ++c) out[3 * n + c] = Math.round(stops[at][c] + (stops[at + 1][c] - stops[at][c]) * (place - at));
  }
  return out;
}

export const kLight: Theme = {
  paper: "#fafaf8", card: "#ffffff", ink: "#1d1f23", soft: "#5d626b", faint: "#a9aeb6", line: "#e4e5e8", accent: "#d97706",
  raise: "#2171b5", lower: "#c2571a", mark: "#f59e0b", ramp: makeRamp(kLightStops),
  models: ["#b84f00", "#0064a0", "#117733", "#7a3b8f", "#8a6d00", "#a03050"],
};
export const kDark: Theme = {
  paper: "#131518", card: "#1a1d21", ink: "#e8e9eb", soft: "#a2a7b0", faint: "#666c76", line: "#2e3238", accent: "#fbbf24",
  raise: "#62b5ec", lower: "#f29a4f", mark: "#fbbf24", ramp: makeRamp(kDarkStops),
  models: ["#f29a4f", "#62b5ec", "#6cc788", "#c79be0", "#d8bd4a", "#e88aa5"],
};

export const themeOf = (dark: boolean): Theme => (dark ? kDark : kLight);
export const modelColour = (theme: Theme, model: number): string => theme.models[model % theme.models.length];

export function rampColour(theme: Theme, shade: number): string {
  const n = 3 * Math.round(255 * Math.min(1, Math.max(0, shade)));
  return `rgb(${theme.ramp[n]},${theme.ramp[n + 1]},${theme.ramp[n + 2]})`;
}

// Signed: blue raises, orange lowers; 0 is the card itself. `share` in [-1, 1].
export function signedColour(theme: Theme, share: number): string {
  const to = share >= 0 ? theme.raise : theme.lower, amount = Math.sqrt(Math.min(1, Math.abs(share)));
  const mix = (at: number) => {
    const from = parseInt(theme.card.slice(at, at + 2), 16), end = parseInt(to.slice(at, at + 2), 16);
    return Math.round(from + (end - from) * amount);
  };
  return `rgb(${mix(1)},${mix(3)},${mix(5)})`;
}

// Ink that can be read on a colour "rgb(r,g,b)".
export function inkOn(colour: string): string {
  const [r, g, b] = colour.match(/\d+/g)!.map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14161a" : "#f6f7f8";
}
