// The page: opens its data (a server's, or the records inside it), builds the rooms, and keeps address, state and views together.
import "./style.css";
import { remember } from "./data/backend.ts";
import { openEmbedded, type EmbeddedData } from "./data/embedded.ts";
import { openServer } from "./data/server.ts";
import { startState, Store } from "./state.ts";
import { decodeLink } from "./link.ts";
import { themeOf } from "./draw/theme.ts";
import { h } from "./ui/dom.ts";
import { Shell } from "./ui/shell.ts";
import type { Room } from "./ui/view.ts";

function wantsDark(): boolean {
  const chosen = (() => { try { return localStorage.getItem("openwork-dark"); } catch { return null; } })();
  return chosen === null ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "yes";
}

async function open(): Promise<void> {
  const place = document.getElementById("app")!;
  const inside = document.getElementById("openwork-data");
  const alone = document.querySelector("main") === null;  // else a page that `compare` wrote stands around it
  document.documentElement.classList.toggle("alone", alone);
  if (!inside && new URLSearchParams(location.search).has("token")) {
    history.replaceState(null, "", location.pathname + location.hash);  // the cookie has it now
  }
  const opening = setTimeout(() => place.replaceChildren(h("div", { class: "shell" }, h("p", { class: "waiting" }, "opening the models …"))), 250);
  try {
    const data = remember(inside ? openEmbedded(JSON.parse(inside.textContent!) as EmbeddedData) : openServer());
    const api = await data.api();
    clearTimeout(opening);
    const linked = decodeLink(location.hash);
    const store = new Store({ ...startState(), prompt: api.prompt, ...linked, dark: wantsDark() });
    const room: Room = { api, data, store, run: null, statistics: null, theme: () => themeOf(store.state.dark) };
    const shell = new Shell(room);
    place.replaceChildren(shell.element);
    if (!alone && linked.view && location.hash.includes("?")) place.scrollIntoView();  // an address of this view, not of a section
    await shell.start();
  } catch (reason) {
    clearTimeout(opening);
    place.replaceChildren(h("div", { class: "shell" }, h("p", { class: "waiting bad" }, (reason as Error).message)));
  }
}

void open();
