// Reads values out of the heads' pictures: each is a palette PNG of one pixel per (query, key), drawn once to a
// canvas; a pixel's colour is looked up in the palette and is the attention weight to 1/255. Nothing is loaded.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const reading = document.getElementById("reading");
  document.documentElement.classList.add("js");

  const index_of_colour = new Map(data.palette.map((colour, index) => [colour, index]));
  const canvases = new WeakMap();

  function pixels_of(image) {
    if (!canvases.has(image)) {
      const canvas = document.createElement("canvas");
      canvas.width = image.naturalWidth;
      canvas.height = image.naturalHeight;
      const context = canvas.getContext("2d", { willReadFrequently: true });
      context.drawImage(image, 0, 0);
      canvases.set(image, context);
    }
    return canvases.get(image);
  }

  // The palette's nearest colour, should a browser alter canvas pixels slightly.
  function nearest_index(r, g, b) {
    let best = 0, least = Infinity;
    data.palette.forEach((colour, index) => {
      const [R, G, B] = [colour >> 16, (colour >> 8) & 255, colour & 255];
      const distance = (r - R) ** 2 + (g - G) ** 2 + (b - B) ** 2;
      if (distance < least) { least = distance; best = index; }
    });
    return best;
  }

  function value_at(image, query, key) {
    if (key > query) return 0;
    const [r, g, b] = pixels_of(image).getImageData(key, query, 1, 1).data;
    const index = index_of_colour.get((r << 16) | (g << 8) | b) ?? nearest_index(r, g, b);
    return (index / 255) ** 2;  // the shade is the value's square root
  }

  const escape = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  const token = (model, position) =>
    `<span class="token mono">${escape(data.tokens[model][position] ?? "?")}</span> <span class="soft">${position}</span>`;
  const same_tokens = (a, b) => data.tokens[a].join("\n") === data.tokens[b].join("\n");

  function place_of(image, event) {
    const box = image.getBoundingClientRect();
    const cell = (at, from, size, count) => Math.min(count - 1, Math.max(0, Math.floor(((at - from) / size) * count)));
    return {
      query: cell(event.clientY, box.top + image.clientTop, image.clientHeight, image.naturalHeight),
      key: cell(event.clientX, box.left + image.clientLeft, image.clientWidth, image.naturalWidth),
    };
  }

  const pictures_of = (head) => [...document.querySelectorAll(`.heads img[data-head="${head}"]`)];

  function show(image, event, out) {
    const { query, key } = place_of(image, event);
    const head = image.dataset.head;
    const own = Number(image.dataset.model);
    const values = data.models.map((name, model) => {
      if (!same_tokens(own, model)) return "";
      const picture = pictures_of(head).find((one) => Number(one.dataset.model) === model);
      const value = picture ? value_at(picture, query, key).toFixed(3) : "blank";
      return `<span class="${model === 0 ? "dense" : "sparse"}">${escape(name)} <b>${key > query ? "–" : value}</b></span>`;
    });
    out.innerHTML = `<b>${head}</b> &nbsp; ${token(own, query)} ← ${token(own, key)} &nbsp; ${values.join(" &nbsp; ")}`;
    out.dataset.head = head;
  }

  for (const image of document.querySelectorAll(".heads img")) {
    image.addEventListener("mousemove", (event) => show(image, event, reading));
    image.addEventListener("mouseenter", () => pictures_of(image.dataset.head).forEach((one) => one.classList.add("twin")));
    image.addEventListener("mouseleave", () => pictures_of(image.dataset.head).forEach((one) => one.classList.remove("twin")));
    image.addEventListener("click", () => enlarge(image.dataset.head));
  }

  function enlarge(head) {
    const dialog = document.getElementById("large");
    const views = dialog.querySelector(".views");
    const line = dialog.querySelector(".line");
    dialog.querySelector("h3").textContent = head;
    views.replaceChildren(...pictures_of(head).map((picture) => {
      const view = document.createElement("figure");
      const image = picture.cloneNode();
      image.className = "";
      image.addEventListener("mousemove", (event) => show(image, event, line));
      const caption = document.createElement("figcaption");
      caption.textContent = picture.title;
      view.append(image, caption);
      return view;
    }));
    line.textContent = "Queries downwards, keys to the right.";
    dialog.showModal();
  }
  document.querySelector("#large button")?.addEventListener("click", () => document.getElementById("large").close());

  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("th").forEach((heading, column) => heading.addEventListener("click", () => {
      const down = heading.dataset.down !== "yes";
      heading.dataset.down = down ? "yes" : "no";
      const number = (row) => parseFloat(row.cells[column].textContent);
      const text = (row) => row.cells[column].textContent;
      const rows = [...table.tBodies[0].rows];
      const numeric = rows.some((row) => !Number.isNaN(number(row)) && !/^L\d/.test(text(row)));
      const order = (a, b) => numeric ? (number(a) || 0) - (number(b) || 0) : text(a).localeCompare(text(b), "en", { numeric: true });
      rows.sort((a, b) => (down ? -1 : 1) * order(a, b));
      table.tBodies[0].append(...rows);
    }));
  }
})();
