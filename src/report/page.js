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

  // A picture that is pressed: by pointer, or by Enter and space where the focus is.
  function press(image, action) {
    image.setAttribute("role", "button");
    image.addEventListener("click", action);
    image.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      action();
    });
  }

  for (const image of document.querySelectorAll(".heads img")) {
    const mark = (on) => pictures_of(image.dataset.head).forEach((one) => one.classList.toggle("twin", on));
    image.addEventListener("mousemove", (event) => show(image, event, reading));
    for (const [name, on] of [["mouseenter", true], ["focus", true], ["mouseleave", false], ["blur", false]]) image.addEventListener(name, () => mark(on));
    image.addEventListener("focus", () => { reading.textContent = image.title; });
    press(image, () => enlarge(image.dataset.head));
  }

  // One stop of the Tab key for each sheet of heads; arrows move in it.
  for (const sheet of document.querySelectorAll(".heads")) {
    const places = [...sheet.children], columns = () => getComputedStyle(sheet).gridTemplateColumns.split(" ").length;
    const images = places.map((place) => place.querySelector("img"));   // null where a head is blank
    images.filter(Boolean).forEach((image, n) => { image.tabIndex = n === 0 ? 0 : -1; });
    sheet.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      let to = images.indexOf(event.target) + step;
      while (images[to] === null) to += step;
      if (!images[to]) return;
      event.target.tabIndex = -1;
      images[to].tabIndex = 0;
      images[to].focus();
    });
  }

  const dialog = document.getElementById("large"), views = dialog.querySelector(".views"), line = dialog.querySelector(".line");

  function open(title) {
    dialog.querySelector("h3").textContent = title;
    dialog.setAttribute("aria-label", title);
    dialog.showModal();
  }

  // A chart as wide as it was drawn, or wider: what does not fit is scrolled to.
  function enlarge_chart(image) {
    const chart = image.cloneNode(), frame = document.createElement("div"), sizes = document.createElement("div");
    let width = Math.max(image.naturalWidth, 1000);
    const resize = (by) => { width = Math.min(6000, Math.max(300, width * by)); chart.style.width = `${width}px`; };
    const button = (label, sign, by) => {
      const made = document.createElement("button");
      made.textContent = sign;
      made.setAttribute("aria-label", label);
      made.addEventListener("click", () => resize(by));
      return made;
    };
    frame.className = "frame";
    frame.tabIndex = 0;   // arrow keys scroll it
    sizes.className = "sizes";
    sizes.append(button("smaller", "−", 1 / 1.5), button("larger", "+", 1.5));
    for (const name of ["role", "tabindex", "aria-label"]) chart.removeAttribute(name);
    frame.append(chart);
    resize(1);
    views.replaceChildren(sizes, frame);
    line.textContent = image.alt;
    open(image.closest("section").querySelector("h2").textContent);
    frame.focus();
  }
  for (const image of document.querySelectorAll("main figure:not(.head) > img")) {
    image.tabIndex = 0;
    image.setAttribute("aria-label", `enlarge: ${image.alt}`);
    press(image, () => enlarge_chart(image));
  }

  function enlarge(head) {
    views.replaceChildren(...pictures_of(head).map((picture) => {
      const view = document.createElement("figure");
      const image = picture.cloneNode();
      image.className = "";
      for (const name of ["role", "tabindex"]) image.removeAttribute(name);
      image.addEventListener("mousemove", (event) => show(image, event, line));
      const caption = document.createElement("figcaption");
      caption.textContent = picture.title;
      view.append(image, caption);
      return view;
    }));
    line.textContent = "Queries downwards, keys to the right.";
    open(head);
  }
  dialog.querySelector("button").addEventListener("click", () => dialog.close());

  function sort_button(heading) {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    heading.append(button);
    return button;
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.querySelectorAll("th")];
    headings.forEach((heading, column) => sort_button(heading).addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") !== "descending";
      headings.forEach((one) => one.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
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
