// What programs did to memory, how their warps spent the time, and the faults that ended kernels.
(() => {
  const { h } = heddle;
  const space = "\u00a0";

  const scaled = (value, step, units, digits) => {
    if (!heddle.isNumber(value)) return "\u2013";
    let i = 0;
    while (value >= step && i + 1 < units.length) { value /= step; ++i; }
    return `${heddle.number(value, digits)}${space}${units[i]}`;
  };
  heddle.bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"], 3);
  heddle.bandwidth = (gb) => scaled(gb, 1000, ["GB/s", "TB/s", "PB/s"], 3);

  const bar = heddle.shareBar = (percent) => h("td", { class: "share" },
    percent > 0 ? h("i", { style: { width: `${heddle.clamp(percent, 0, 100) * 0.6}%` } }) : null, heddle.percent(percent));

  // A table of levels, from the SMs outwards.
  heddle.memoryLevels = (levels, table) => table(["", "Moved", "Achieved", "Peak", "Share of peak", "Hit rate"],
    levels.map((level) => h("tr", {},
      h("th", { scope: "row" }, level.name, level.what ? h("small", { class: "muted" }, ` ${level.what}`) : null),
      h("td", { class: "number" }, heddle.bytes(level.bytes)),
      h("td", { class: "number strong" }, heddle.bandwidth(level.gb_per_s)),
      h("td", { class: "number" }, heddle.bandwidth(level.peak_gb_per_s)),
      bar(level.share_percent),
      h("td", { class: "number" }, heddle.isNumber(level.hit_percent) ? heddle.percent(level.hit_percent) : ""))), [1, 2, 3, 5]);

  heddle.memoryCounts = (counts, table) => table(["", "Number", ""], counts.map((row) => h("tr", {},
    h("th", { scope: "row" }, row.label), h("td", { class: "number strong" }, heddle.number(row.count, 12)),
    h("td", { class: "muted" }, row.note || ""))), [1]);

  heddle.faultTable = (faults, table) => table(["", "Kernel", "SM", "CTA", "Warp", "Lane", "Step", "Address", "What", "Time"],
    faults.map((fault) => h("tr", {},
      h("td", { class: fault.expected ? "verdict good" : "verdict bad" }, fault.expected ? "expected" : "not expected"),
      h("td", { class: "strong" }, fault.kernel),
      [fault.sm, fault.cta, fault.warp, fault.lane].map((n) => h("td", { class: "number" }, heddle.number(n, 12))),
      h("td", {}, fault.step), h("td", {}, fault.address ? h("code", {}, fault.address) : ""), h("td", {}, fault.what),
      h("td", { class: "number" }, heddle.time(fault.us)))), [2, 3, 4, 5, 9]);
})();
