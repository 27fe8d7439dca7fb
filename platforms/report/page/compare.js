// The page of a comparison: runs side by side, each against the first.
(() => {
  const { h, card, headline, guarded, amount } = heddle;
  const main = document.getElementById("main");

  const change = (row, i) => {
    const [first, value] = [row.values[0], row.values[i]];
    if (i === 0 || first === value || !heddle.isNumber(first) || !heddle.isNumber(value) || first === 0) return null;
    return (100 * (value - first)) / Math.abs(first);
  };
  const most = (row) => Math.max(...row.values.map((value, i) => (value === row.values[0] ? 0 : Math.abs(change(row, i) ?? Infinity))));

  function numbers(data, rows, titles, extra = []) {
    const cell = (row, i) => {
      const by = change(row, i);
      return h("td", { class: "number" }, amount(row.values[i], row.unit, 6),
        by === null ? null : h("span", { class: `change ${by > 0 ? "up" : "down"}` }, heddle.deviation(by)));
    };
    return heddle.sortable([
      { title: titles, key: (row) => row.name, cell: (row) => h("th", { scope: "row" }, row.name) },
      ...heddle.list(data.runs).map((run, i) => ({ title: `${i + 1}`, number: true, key: (row) => row.values[i], cell: (row) => cell(row, i) })),
      ...extra,
      { title: "Largest change", number: true, key: most, cell: (row) => h("td", { class: "number" }, Number.isFinite(most(row)) ? heddle.percent(most(row)) : "no ratio") },
    ], rows);
  }

  function runs(data) {
    card(main, { id: "runs", title: "Runs", navText: "Runs", lead: "Below, runs have these numbers; all are compared with the first." }, (box) => box.append(heddle.table(["", "Folder", "Command", ""],
      heddle.list(data.runs).map((run, i) => h("tr", {}, h("td", {}, h("b", {}, String(i + 1))), h("td", {}, h("code", {}, run.name)),
        h("td", {}, run.command ? h("code", {}, run.command) : ""), h("td", { class: "verdict bad" }, run.complete ? "" : "has not come to its end"))))));
  }

  heddle.showPage((data) => {
    const beyond = heddle.list(data.thresholds).filter((one) => !one.ok);
    headline({ highlights: [
      { label: "Runs", value: String(heddle.list(data.runs).length) },
      { label: "Settings that differ", value: heddle.number(heddle.list(data.settings).length, 9) },
      { label: "Statistics that differ", value: heddle.number(heddle.list(data.stats).length + (data.stats_left_out || 0), 9), note: `${heddle.number(data.equal_stats, 9)} are equal` },
      heddle.list(data.thresholds).length ? { label: "Beyond a limit", value: heddle.number(beyond.length, 9), note: `of ${heddle.count(data.thresholds.length, "check")}` } : null,
    ].filter(Boolean) });
    if (beyond.length)
      main.append(h("div", { class: "notice bad", role: "alert", id: "beyond" }, h("strong", {}, `${heddle.count(beyond.length, "figure")} beyond a limit`),
        h("ul", {}, beyond.map((one) => h("li", {}, `${one.text}: ${one.name} is ${amount(one.value)} in run ${one.run + 1}, and ${amount(one.first)} in run 1`)))));
    guarded("runs", () => runs(data));
    const part = (id, title, rows, name, lead, extra) => guarded(title, () => {
      if (heddle.list(rows).length) card(main, { id, title, navText: title, lead }, (box) => box.append(numbers(data, rows, name, extra)));
    });
    guarded("configuration", () => card(main, { id: "settings", title: "Configuration", navText: "Configuration",
      lead: heddle.list(data.settings).length ? "What differs." : "The runs have the same configuration." }, (box) => {
      if (heddle.list(data.settings).length)
        box.append(heddle.sortable([{ title: "Parameter", key: (row) => row.path, cell: (row) => h("th", { scope: "row" }, h("code", {}, row.path)) },
          ...heddle.list(data.runs).map((run, i) => ({ title: String(i + 1), key: (row) => row.values[i], cell: (row) => h("td", {}, row.values[i] ?? "\u2013") }))], data.settings));
    }));
    part("figures", "Figures", data.figures, "Figure");
    part("headlines", "The runs", data.headline, "Statistic");
    part("kernels", "Kernels", data.kernels, "Kernel", "Total time of all launches of a name.", [{ title: "Launches", key: (row) => heddle.list(row.launches)[0],
      cell: (row) => h("td", { class: "number" }, [...new Set(heddle.list(row.launches))].map((count) => heddle.number(count, 9)).join(" / ")), number: true }]);
    part("used", "Use", data.used, "Kernel", "What all launches of a kernel used of the machines, where it differs (docs/statistics.md).");
    part("stats", "Statistics", data.stats, "Statistic", data.stats_left_out ? `Those that differ; ${heddle.number(data.stats_left_out, 9)} that differ less are left out.` : "Those that differ, most first.");
  });
})();
