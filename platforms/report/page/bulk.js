// What requests to tensor memory access units moved, how long they took, and what of links and ports they had.
(() => {
  const { h } = heddle;
  const number = (value, digits) => h("td", { class: "number" }, heddle.isNumber(value) ? heddle.number(value, digits) : "");
  const wrong = (row) => (row.wrong > 0 ? h("small", { class: "verdict bad" }, ` ${heddle.number(row.wrong, 12)} in error`) : null);

  heddle.bulkKinds = (rows, table) => table(["", "Requests", "Moved", "Mean", "95 %", "Longest"], rows.map((row) => h("tr", {},
    h("th", { scope: "row" }, row.kind), h("td", { class: "number" }, heddle.number(row.requests, 12), wrong(row)),
    h("td", { class: "number strong" }, heddle.bytes(row.bytes)),
    number(row.mean_cycles, 4), number(row.p95_cycles, 4), number(row.longest_cycles, 6))), [1, 2, 3, 4, 5]);

  heddle.bulkTensors = (rows, table) => table(["Tensor", "", "Requests", "Moved", "Fetched", "Used of it", "Mean", "Longest", "Descriptor"],
    rows.map((row) => h("tr", {},
      h("th", { scope: "row" }, row.name), h("td", {}, row.kind),
      h("td", { class: "number" }, heddle.number(row.requests, 12), wrong(row)),
      h("td", { class: "number strong" }, heddle.bytes(row.bytes)),
      h("td", { class: "number" }, row.fetched > 0 ? heddle.bytes(row.fetched) : ""),
      h("td", { class: "number" }, heddle.isNumber(row.used_percent) ? heddle.percent(row.used_percent) : ""),
      number(row.mean_cycles, 4), number(row.longest_cycles, 6), number(row.descriptor_cycles, 4))), [2, 3, 4, 5, 6, 7, 8]);

  heddle.bulkUnits = (rows, table) => table(["Unit", "Requests", "Lines", "Read", "Written", "Generating", "Queue in use", "Waits: answers", "Waits: crossbar"],
    rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.unit), number(row.requests, 12), number(row.lines, 12),
      h("td", { class: "number" }, heddle.bytes(row.bytes_in)), h("td", { class: "number" }, heddle.bytes(row.bytes_out)),
      number(row.generator_cycles, 12), number(row.queue_cycles, 12), number(row.outstanding_cycles, 12), number(row.crossbar_cycles, 12))),
    [1, 2, 3, 4, 5, 6, 7, 8]);

  // What bounds the kernels, if anything does.
  heddle.busiest = (rows) => {
    const [first, second] = rows.filter((row) => heddle.isNumber(row.busy_percent)).sort((a, b) => b.busy_percent - a.busy_percent);
    if (!first) return "";
    const of = (row) => `${row.label} (${heddle.percent(row.busy_percent)} of what is possible)`;
    return h("p", { class: "after" }, `Busiest while kernels with programs ran: ${of(first)}${second ? `, then ${of(second)}` : ""}. `
      + "With less than some 70 % nothing is a limit by itself: kernels wait for latencies, or for each other.");
  };

  heddle.bulkShares = (rows, table) => table(["", "Share of these requests", "In use", ""], rows.map((row) => h("tr", {},
    h("th", { scope: "row" }, row.label), heddle.isNumber(row.share_percent) ? heddle.shareBar(row.share_percent) : h("td", {}),
    h("td", { class: "number" }, heddle.isNumber(row.busy_percent) ? heddle.percent(row.busy_percent) : ""),
    h("td", { class: "muted" }, row.note || ""))), [2]);
})();
