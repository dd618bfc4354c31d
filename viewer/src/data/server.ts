// The live backend: the first view comes in one answer; after it, POST a question: quick work answers at once, long work answers
// with a job whose events are followed.
import type { Progress } from "./records.ts";
import { written, type Backend, type PatternRequest, type Request } from "./backend.ts";
import { bytesOf, type EmbeddedData } from "./embedded.ts";
import { decodePatterns } from "./tensor.ts";

async function failure(response: Response): Promise<Error> {
  const said = await response.json().catch(() => null) as { error?: string } | null;
  return new Error(said?.error ?? `the server answered ${response.status}`);
}

async function post(route: string, request: Request | PatternRequest): Promise<Response> {
  const send = () => fetch(route, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
  let response = await send();
  for (let tries = 0; response.status === 503 && tries < 5; ++tries) {  // busy: it says so and means a second
    await new Promise((done) => setTimeout(done, 1000));
    response = await send();
  }
  if (!response.ok) throw await failure(response);
  return response;
}

// One event stream per job, closed at its end: EventSource would otherwise open it again.
function follow<T>(job: string, cancel: () => void, onProgress?: (at: Progress) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const events = new EventSource(`/api/jobs/${encodeURIComponent(job)}/events`);
    const end = (settle: () => void) => { events.close(); settle(); };
    const data = (event: Event) => JSON.parse((event as MessageEvent<string>).data);
    events.addEventListener("queued", () => onProgress?.({ stage: "waiting for other work", done: 0, all: 0, cancel }));
    events.addEventListener("progress", (event) => onProgress?.({ ...data(event), cancel }));
    events.addEventListener("result", (event) => end(() => resolve(data(event) as T)));
    events.addEventListener("cancelled", () => end(() => reject(new Error("cancelled"))));
    events.addEventListener("error", (event) => {
      const said = (event as MessageEvent<string>).data;
      if (said) end(() => reject(new Error(JSON.parse(said).error)));
      else if (events.readyState === EventSource.CLOSED) end(() => reject(new Error("the server went away; start it again with openwork serve")));
    });
  });
}

// Long work of a prompt that is no longer shown is called off when its route is asked about another one.
class Jobs {
  private readonly running = new Map<string, { prompt: unknown; job: string }>();

  async run<T>(route: string, request: Request, job: string, onProgress?: (at: Progress) => void): Promise<T> {
    const before = this.running.get(route);
    if (before && before.prompt !== undefined && before.prompt !== request.prompt) this.cancel(before.job);
    this.running.set(route, { prompt: request.prompt, job });
    try {
      return await follow<T>(job, () => this.cancel(job), onProgress);
    } finally {
      if (this.running.get(route)?.job === job) this.running.delete(route);
    }
  }

  private cancel(job: string): void {
    void fetch(`/api/jobs/${encodeURIComponent(job)}`, { method: "DELETE" }).catch(() => {});
  }
}

export function openServer(): Backend {
  const jobs = new Jobs(), came = new Map<string, EmbeddedData["answers"][number]>();   // with the opening, by what was asked
  const known = (route: string, request: unknown) => came.get(route + written(request));
  return {
    live: true,
    knows: () => true,
    atHand: <T>(route: string, request: Request) => (known(route, request)?.answer ?? null) as T | null,
    async api() {
      const response = await fetch("/api/opening");
      if (!response.ok) throw await failure(response);
      const opening = await response.json() as EmbeddedData;
      for (const one of opening.answers) came.set(one.route + written(one.request), one);
      return opening.api;
    },
    async ask<T>(route: string, request: Request, onProgress?: (at: Progress) => void) {
      const here = known(route, request);
      if (here) return here.answer as T;
      const answer = await (await post(route, request)).json();
      if (answer && typeof answer.job === "string") return jobs.run<T>(route, request, answer.job, onProgress);
      return (answer?.result ?? answer) as T;
    },
    async patterns(request: PatternRequest) {
      const here = known("/api/patterns", request);
      if (here) return decodePatterns(bytesOf(here.binary!));
      return decodePatterns(await (await post("/api/patterns", request)).arrayBuffer());
    },
    async training(from: number, point: number) {
      const response = await fetch(`/api/training?from=${from}&point=${point}`);
      if (!response.ok) throw await failure(response);
      return response.json();
    },
  };
}
