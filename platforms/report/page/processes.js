// Subcontexts that share a machine: what each took and got, what it waited for, and whose bytes moved.
(() => {
  const { h } = heddle;
  const number = (value, digits = 3) => h("td", { class: "number" }, heddle.isNumber(value) ? heddle.number(value, digits) : "");
  const time = (value) => h("td", { class: "number" }, heddle.isNumber(value) ? heddle.time(value) : "");
  const name = (row) => h("th", { scope: "row" }, `subcontext ${row.subcontext}`);
  const unfinished = (row) => (row.open > 0 ? h("small", { class: "verdict bad" }, ` ${heddle.number(row.open, 12)} not ended`) : null);

  heddle.processTable = (rows, table) => table(["", "Kernels", "CTAs", "CTAs per \u00b5s", "Latency", "median", "99 %", "SMs in use", "TPCs held", "most",
    "Credits left", "Contested", "Progress"], rows.map((row) => h("tr", {}, name(row),
    h("td", { class: "number" }, heddle.number(row.kernels, 12), unfinished(row)), h("td", { class: "number strong" }, heddle.number(row.ctas, 12)),
    number(row.ctas_per_us), time(row.mean_us), time(row.p50_us), time(row.p99_us),
    h("td", { class: "number" }, heddle.isNumber(row.sm_percent) ? heddle.percent(row.sm_percent) : ""),
    number(row.tpcs_mean), number(row.tpcs_most, 6), number(row.credits_left, 6), time(row.contested_us),
    heddle.isNumber(row.progress_percent) ? heddle.shareBar(row.progress_percent) : h("td", {}))), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);

  heddle.fairness = (value) => h("p", { class: "after" }, h("strong", {}, `Fairness ${heddle.fixed(value, 3)}`),
    ": Jain\u2019s index of the progress of those that had work at the same time; 1 if all made as much. Progress is what a subcontext took "
    + "of SMs, of what it is entitled to by mask, credits or shares (where these promise more than there is, and without any, its part of the machine), "
    + "over the time in which it and another one had work; all of it where it wanted no more.");

  heddle.processWaits = (rows, table) => table(["", "Waited for", "Task time", "Whose doing"], rows.flatMap((row) => [
    ...heddle.list(row.waits).map((wait) => h("tr", {}, name(row), h("td", {}, wait.reason), h("td", { class: "number strong" }, heddle.time(wait.us)),
      h("td", { class: "muted" }, wait.cause || ""))),
    row.waiting > 0 ? h("tr", {}, name(row), h("td", { class: "verdict bad" }, `${heddle.count(row.waiting, "task")} still waiting at the end`),
      h("td", {}), h("td", {})) : null].filter(Boolean)), [2]);

  const columns = ["L2", "Crossbar, requests", "Crossbar, responses", "Read from memory", "Written to memory"];
  heddle.processBytes = (rows, table) => table(["", ...columns, "L2 hits"], rows.map((row) => h("tr", {}, name(row),
    columns.map((_, i) => heddle.list(row.bytes)[i] || []).map(([bytes, share]) => h("td", { class: "number" }, heddle.bytes(bytes),
      heddle.isNumber(share) ? h("small", { class: "muted" }, ` ${heddle.percent(share)}`) : null)),
    h("td", { class: "number" }, heddle.isNumber(row.l2_hit_percent) ? heddle.percent(row.l2_hit_percent) : ""))), [1, 2, 3, 4, 5, 6]);
})();
