// What pages are made of: cards, tables, a headline, a chooser; and how a page begins and ends.
(() => {
  const { h } = heddle;
  const main = document.getElementById("main");
  const nav = document.getElementById("nav");

  window.addEventListener("error", (event) => {
    heddle.fail("script", event.error || event.message);
    document.body.dataset.errors = String(heddle.errors.length);
  });

  // Calls `draw` at most once a frame while the element's width changes.
  heddle.onResize = function (element, draw) {
    let width = element.clientWidth;
    let waiting = false;
    new ResizeObserver(() => {
      if (element.clientWidth === width || waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        width = element.clientWidth;
        draw();
      });
    }).observe(element);
  };

  // A card is in the page before it is filled, so that plots know their size.
  heddle.card = function (parent, { id, title, lead, wide = true, navText }, fill) {
    const box = h("section", { class: wide ? "card wide" : "card", id }, h("h3", {}, title), lead ? h("p", { class: "lead" }, lead) : null);
    parent.append(box);
    try {
      fill(box);
    } catch (error) {
      heddle.fail(title, error);
      box.append(h("p", { class: "notice bad" }, `This part could not be drawn: ${error.message}`));
    }
    if (navText && id) nav.append(h("a", { href: `#${id}` }, navText));
    return box;
  };
  heddle.holder = (parent, name) => {
    const element = h("div", { class: `plot ${name}` });
    parent.append(element);
    return element;
  };
  heddle.cells = (texts, numeric = []) => texts.map((text, i) => h("td", { class: numeric.includes(i) ? "number" : null }, text));
  heddle.table = (heads, rows, numeric = []) => h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, heads.map((head, i) => h("th", { scope: "col", class: numeric.includes(i) ? "number" : null }, head)))),
    h("tbody", {}, rows)));

  heddle.headline = function (data) {
    const element = document.getElementById("headline");
    if (data.description) element.append(h("p", { class: "lead" }, data.description));
    if (data.command) element.append(h("pre", { class: "command" }, h("code", {}, data.command)));
    const tiles = heddle.list(data.highlights);
    if (tiles.length)
      element.append(h("dl", { class: "tiles" }, tiles.map((tile) => h("div", {},
        h("dt", {}, tile.label), h("dd", { class: "value" }, tile.value), tile.note ? h("dd", { class: "note" }, tile.note) : null))));
  };

  function redrawAll() {
    for (const draw of heddle.redraws) {
      try { draw(); } catch (error) { heddle.fail("redraw", error); }
    }
  }
  const paper = (on) => { document.documentElement.dataset.theme = on ? "light" : ""; redrawAll(); };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  window.addEventListener("beforeprint", () => { if (heddle.isDark()) paper(true); });
  window.addEventListener("afterprint", () => { if (document.documentElement.dataset.theme === "light") paper(false); });
  window.addEventListener("scroll", heddle.tooltip.hide, { passive: true });

  heddle.guarded = function (what, draw) {
    try {
      draw();
    } catch (error) {
      heddle.fail(what, error);
      main.append(h("p", { class: "notice bad" }, `A part of this page (${what}) could not be drawn: ${error.message}`));
    }
  };

  // A labelled choice: [{label, value}]. `pick` is called with the value.
  heddle.choice = function (label, choices, chosen, pick) {
    const select = h("select", { onchange: () => pick(choices[select.selectedIndex].value) },
      choices.map((one) => h("option", { selected: one.value === chosen }, one.label)));
    return h("label", { class: "choice" }, h("span", {}, label), select);
  };

  // A number of any size, with its unit.
  heddle.amount = function (value, unit = "", digits = 5) {
    if (!heddle.isNumber(value)) return "\u2013";
    const size = Math.abs(value);
    const text = size !== 0 && (size < 1e-4 || size >= 1e15) ? value.toExponential(digits - 1).replace(/-/g, "\u2212") : heddle.number(value, digits);
    return unit ? `${text}\u00a0${heddle.unitName(unit)}` : text;
  };

  // Draws the page from its data; what goes wrong is told on it.
  heddle.showPage = function (draw) {
    try {
      draw(JSON.parse(document.getElementById("heddle-data").textContent));
      if (!nav.childElementCount) nav.parentElement.remove();
    } catch (error) {
      heddle.fail("page", error);
      main.prepend(h("p", { class: "notice bad" }, `The page could not be drawn: ${error.message}`));
    }
    document.body.dataset.errors = String(heddle.errors.length);
    document.body.dataset.ready = "1";
  };
})();
