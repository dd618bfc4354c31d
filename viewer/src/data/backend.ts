// Where answers come from: a live server, or the records inside a page that `compare` wrote. Views ask; they do not know which.
import type { Api, Progress } from "./records.ts";
import type { Patterns } from "./tensor.ts";

export type Request = Record<string, unknown>;

export interface PatternRequest {
  prompt: string; model: string; weights: "attention" | "value"; heads?: string[]; format?: "u8" | "f32"; cells?: number;
}

export interface Backend {
  readonly live: boolean;
  knows(route: string, request: Request): boolean;   // whether asking is worth while: a server can be asked anything
  atHand<T>(route: string, request: Request): T | null;   // an answer that needs no asking
  api(): Promise<Api>;
  ask<T>(route: string, request: Request, onProgress?: (at: Progress) => void): Promise<T>;
  patterns(request: PatternRequest): Promise<Patterns>;
  training(from: number, point: number): Promise<unknown>;
}

// What the page says when something was not computed: shown as text, never as a fault.
export class NotHere extends Error {}

// A question as text, whatever the order of its keys.
export const written = (wish: unknown): string => JSON.stringify(wish, (_key, value) => value && typeof value === "object" && !Array.isArray(value)
  ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) : value);

const kKept = 60;

// The last answers, by what was asked; a failed question may be asked again.
export function remember(backend: Backend): Backend {
  const answers = new Map<string, Promise<unknown>>();
  const once = <T>(key: string, ask: () => Promise<T>): Promise<T> => {
    const known = answers.get(key);
    if (known) return known as Promise<T>;
    const answer = ask();
    answers.set(key, answer);
    answer.catch(() => answers.delete(key));
    if (answers.size > kKept) answers.delete(answers.keys().next().value!);
    return answer;
  };
  return {
    live: backend.live,
    knows: (route, request) => backend.knows(route, request),
    atHand: (route, request) => backend.atHand(route, request),
    api: () => once("api", () => backend.api()),
    ask: (route, request, onProgress) => once(route + JSON.stringify(request), () => backend.ask(route, request, onProgress)),
    patterns: (request) => once("patterns" + JSON.stringify(request), () => backend.patterns(request)),
    training: (from, point) => backend.training(from, point),
  };
}
