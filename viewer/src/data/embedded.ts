// The backend inside a file: records written into the page. A question is answered where one with the same route and the
// same wishes was recorded; wishes that only size an answer, or say how it was measured, do not count.
import type { Api } from "./records.ts";
import { NotHere, written, type Backend, type PatternRequest, type Request } from "./backend.ts";
import { decodePatterns } from "./tensor.ts";

export interface EmbeddedData {
  format: number; api: Api;
  answers: { route: string; request: Request; answer?: unknown; binary?: string }[];
}

const kDetails = new Set(["top", "cells", "format", "max_nodes", "max_links", "seed", "heads", "prompts", "threshold", "ablation", "answer", "wrong"]);
const kDefaults: Request = { weights: "attention" };

export function matches(recorded: Request, wanted: Request): boolean {
  const keys = new Set([...Object.keys(recorded), ...Object.keys(wanted)].filter((key) => !kDetails.has(key)));
  const wish = (from: Request, key: string) => written(from[key] ?? kDefaults[key] ?? null);
  return [...keys].every((key) => wish(recorded, key) === wish(wanted, key));
}

export function bytesOf(base64: string): ArrayBuffer {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes.buffer;
}

export function openEmbedded(data: EmbeddedData): Backend {
  if (data.format !== 1) throw new Error(`records of format ${data.format}; this page reads format 1`);
  const look = (route: string, request: Request) => data.answers.find((one) => one.route === route && matches(one.request, request));
  const find = (route: string, request: Request) => {
    const found = look(route, request);
    if (!found) throw new NotHere("Not in this file: open the models with openwork serve to compute it.");
    return found;
  };
  return {
    live: false,
    knows: (route, request) => look(route, request) !== undefined,
    atHand: <T>(route: string, request: Request) => (look(route, request)?.answer ?? null) as T | null,
    api: async () => data.api,
    ask: async <T>(route: string, request: Request) => find(route, request).answer as T,
    patterns: async (request: PatternRequest) =>
      decodePatterns(bytesOf(find("/api/patterns", request as unknown as Request).binary!)),
    training: async () => { throw new NotHere("No training run is in this file."); },
  };
}
