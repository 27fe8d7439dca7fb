// The table of all kernels: sorted by any column, filtered by words, 50 rows at a time.
(() => {
  const { h } = heddle;
  const pageSize = 50;

  const columnsFor = (kernels, shortNames) => {
    const has = (key) => kernels.some((kernel) => kernel[key] !== null && kernel[key] !== undefined);
    const number = (key, title, unit, places) => ({ key, title, unit, numeric: true, text: (kernel) => heddle.fixed(kernel[key], places) });
    return [
      { key: "index", title: "#", numeric: true, always: true, text: (kernel) => String(kernel.index + 1) },
      { key: "name", title: "Kernel", always: true, text: (kernel) => shortNames.get(kernel.name) || kernel.name || "", class: "name" },
      { key: "stream", title: "Stream", text: (kernel) => String(kernel.stream ?? "") },
      { key: "grid", title: "Grid", numeric: true, value: (kernel) => product(kernel.grid), text: (kernel) => heddle.triple(kernel.grid) },
      { key: "block", title: "Block", numeric: true, value: (kernel) => product(kernel.block), text: (kernel) => heddle.triple(kernel.block) },
      number("ctas", "CTAs", "", 0),
      number("start_us", "Start", "\u00b5s", 2),
      number("us", "Modelled", "\u00b5s", 2),
      number("recorded_us", "Recorded", "\u00b5s", 2),
      { key: "deviation", title: "Deviation", numeric: true, value: deviation, text: (kernel) => heddle.deviation(deviation(kernel)),
        absent: !has("recorded_us") },
      number("baseline_us", "Baseline", "\u00b5s", 2),
      number("wait_us", "Wait", "\u00b5s", 2),
      number("occupancy_percent", "Occupancy", "%", 1),
      { key: "match", title: "Match", text: (kernel) => kernel.match || "" },
    ].filter((column) => column.always || (column.absent === undefined ? has(column.key) : !column.absent));
  };
  const product = (value) => heddle.list(value).reduce((all, n) => all * n, 1);
  const deviation = (kernel) => (kernel.recorded_us > 0 && heddle.isNumber(kernel.us) ? 100 * (kernel.us / kernel.recorded_us - 1) : null);

  // Returns {element, filter(text)}.
  heddle.kernelTable = function (allKernels, shortNames) {
    const kernels = allKernels.map((kernel, index) => ({ ...kernel, index }));
    const columns = columnsFor(kernels, shortNames);
    for (const kernel of kernels)
      kernel.haystack = [kernel.name, shortNames.get(kernel.name), kernel.match, kernel.stream === undefined ? "" : `stream ${kernel.stream}`]
        .join("\n").toLowerCase();
    let sorted = kernels.slice();
    let order = { key: "index", down: false };
    let page = 0;

    const search = h("input", { type: "search", placeholder: "Filter by name, stream or match", "aria-label": "Filter kernels",
      oninput: () => { page = 0; update(); } });
    const counted = h("span", { class: "counted", "aria-live": "polite" });
    const body = h("tbody");
    const heads = columns.map((column) => h("th", { scope: "col", class: column.numeric ? "number" : column.class },
      h("button", { type: "button", onclick: () => sortBy(column) }, column.title, column.unit ? h("small", {}, ` ${column.unit}`) : null)));
    const position = h("span");
    const turn = (text, label, step) => h("button", { type: "button", "aria-label": label, onclick: () => { page += step; update(); } }, text);
    const [back, forth] = [turn("\u2190 Previous", "Previous page", -1), turn("Next \u2192", "Next page", 1)];

    function sortBy(column) {
      const down = order.key === column.key ? !order.down : column.numeric && column.key !== "index" && column.key !== "start_us";
      order = { key: column.key, down };
      const value = column.value || ((kernel) => (column.numeric ? kernel[column.key] : column.text(kernel)));
      const known = (v) => v !== null && v !== undefined;
      sorted = kernels.map((kernel) => [value(kernel), kernel]).sort(([a, x], [b, y]) => {
        if (known(a) !== known(b)) return known(a) ? -1 : 1;  // unknown values last, whichever the direction
        const difference = !known(a) ? 0 : typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
        return (down ? -difference : difference) || x.index - y.index;
      }).map(([, kernel]) => kernel);
      page = 0;
      update();
    }
    function update() {
      const words = search.value.trim().toLowerCase();
      const shown = words ? sorted.filter((kernel) => kernel.haystack.includes(words)) : sorted;
      const pages = Math.max(1, Math.ceil(shown.length / pageSize));
      page = heddle.clamp(page, 0, pages - 1);
      body.replaceChildren(...shown.slice(page * pageSize, (page + 1) * pageSize).map((kernel) => h("tr", {}, columns.map((column) =>
        column.key === "name"
          ? h("th", { scope: "row", class: "name", title: kernel.name }, heddle.clipped(column.text(kernel)))
          : h("td", { class: column.numeric ? "number" : null }, column.text(kernel))))));
      if (!shown.length) body.append(h("tr", {}, h("td", { colspan: columns.length, class: "none" }, "No kernel matches the filter.")));
      counted.textContent = shown.length === kernels.length ? heddle.count(kernels.length, "kernel")
        : `${heddle.number(shown.length, 9)} of ${heddle.count(kernels.length, "kernel")}`;
      position.textContent = `Page ${page + 1} of ${heddle.number(pages, 9)}`;
      back.disabled = page === 0;
      forth.disabled = page === pages - 1;
      columns.forEach((column, i) => {
        const active = column.key === order.key;
        heads[i].setAttribute("aria-sort", active ? (order.down ? "descending" : "ascending") : "none");
      });
    }
    update();
    const element = h("div", { class: "kernel-table" },
      h("div", { class: "tools" }, search, counted),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Kernels" },
        h("table", {}, h("thead", {}, h("tr", {}, heads)), body)),
      h("div", { class: "pager" }, back, position, forth));
    const filter = (text) => {
      search.value = text;
      page = 0;
      update();
      element.scrollIntoView({ behavior: "smooth", block: "start" });
    };
    return { element, filter };
  };

  // What each stream did: its kernels and copies, how long they took, and how long kernels waited from their submission on.
  heddle.streamTable = function (gpu, table) {
    const streams = new Map();
    const of = (item) => {
      const name = String(item.stream ?? "");
      if (!streams.has(name)) streams.set(name, { name, kernels: 0, us: 0, wait: 0, copies: 0, copied: 0, from: Infinity, to: 0 });
      const stream = streams.get(name);
      stream.from = Math.min(stream.from, item.start_us);
      stream.to = Math.max(stream.to, item.start_us + item.us);
      return stream;
    };
    for (const kernel of heddle.list(gpu.kernels)) {
      const stream = of(kernel);
      ++stream.kernels;
      stream.us += kernel.us;
      stream.wait += kernel.wait_us || 0;
    }
    for (const copy of heddle.list(gpu.copies)) {
      const stream = of(copy);
      ++stream.copies;
      stream.copied += copy.us;
    }
    if (streams.size < 2) return null;
    const rows = [...streams.values()].sort((a, b) => b.us + b.copied - a.us - a.copied);
    const shown = rows.slice(0, 50);
    const time = (value, some) => h("td", { class: "number" }, some ? heddle.time(value) : "");
    const count = (value) => h("td", { class: "number" }, value ? heddle.number(value, 12) : "");
    return [table(["Stream", "Kernels", "Time", "Mean wait", "Copies", "Time", "Busy"], shown.map((row) => h("tr", {},
      h("th", { scope: "row" }, row.name || "(no name)"), count(row.kernels), time(row.us, row.kernels), time(row.wait / row.kernels, row.kernels),
      count(row.copies), time(row.copied, row.copies),
      h("td", { class: "number" }, heddle.percent(Math.min(100, (100 * (row.us + row.copied)) / Math.max(row.to - row.from, 1e-9))))))
    , [1, 2, 3, 4, 5, 6]), rows.length > shown.length ? h("p", { class: "after" }, `${heddle.count(rows.length - shown.length, "more stream")} of less time.`) : null].filter(Boolean);
  };

  // Kernels that programs launched, by name, parent and depth.
  heddle.launchedTable = (rows, table) => table(["Kernel", "Launched by", "Depth", "Tasks", "Wait", "CTAs", "Descendants", "False dependencies",
    "CTAs saved"], rows.map((row) => {
    const time = (value) => h("td", { class: "number" }, heddle.isNumber(value) ? heddle.time(value) : "");
    const count = (value) => h("td", { class: "number" }, value > 0 ? heddle.number(value, 12) : "");
    const open = row.tasks - row.ended - row.faulted;
    const bad = [row.faulted > 0 ? `${heddle.number(row.faulted, 12)} faulted` : null, open > 0 ? `${heddle.number(open, 12)} not ended` : null].filter(Boolean);
    return h("tr", {}, h("th", { scope: "row", title: row.name }, row.name || "(no name)"), h("td", {}, row.depth === 0 ? "the host" : row.parent || ""),
      h("td", { class: "number" }, String(row.depth)), h("td", { class: "number strong" }, row.depth === 0 ? "" : heddle.number(row.tasks, 12),
        bad.length ? h("small", { class: "verdict bad" }, ` ${bad.join(", ")}`) : null),
      time(row.mean_wait_us), time(row.mean_us), time(row.mean_below_us), count(row.false_dependencies), count(row.saves));
  }), [2, 3, 4, 5, 6, 7, 8]);
})();
