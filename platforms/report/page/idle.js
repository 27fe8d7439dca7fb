// Why SMs had no CTA, and which kernels that has to do with.
(() => {
  const { h } = heddle;

  const reasonsOf = (row) => heddle.list(row.reasons).slice(0, 3).map((one) => `${one.label} ${heddle.percent(one.share_percent)}`).join(", ");

  // One row per reason, the largest first; together they are all idle time.
  heddle.idleReasons = (data, table) => table(["Reason", "Share", "SM time", "What"], heddle.list(data.reasons).map((row) => h("tr", {},
    h("th", { scope: "row" }, row.label), heddle.shareBar(row.share_percent),
    h("td", { class: "number" }, heddle.time(row.sm_us)), h("td", { class: "muted" }, row.what))), [2]);

  heddle.idleKernels = (data, shortNames, table) => table(["Kernel", "Share", "SM time", "Mostly"], heddle.list(data.kernels).map((row) => h("tr", {},
    h("th", { scope: "row", title: row.name }, heddle.clipped(shortNames.get(row.name) || row.name || "(no name)")), heddle.shareBar(row.share_percent),
    h("td", { class: "number" }, heddle.time(row.sm_us)), h("td", { class: "muted" }, reasonsOf(row)))), [2]);
})();
