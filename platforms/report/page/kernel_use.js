// What each kernel used of the machine, what limits it, and where its warps waited.
(() => {
  const { h } = heddle;
  const resources = [["issue", "Issue"], ["tensor", "Tensor"], ["fp32", "fp32"], ["fp64", "fp64"], ["int32", "int32"], ["sfu", "SFU"], ["shared", "Shared"], ["l1", "L1"], ["crossbar", "Crossbar"], ["l2", "L2"], ["atomics", "Atomics"], ["dram", "DRAM"]];
  const title = (text) => ({ display: true, text, color: heddle.colour("muted"), font: { size: 12 } });
  const scaled = (value, units) => {
    let i = 0;
    while (value >= 1000 && i + 1 < units.length) { value /= 1000; ++i; }
    return `${heddle.number(value)}\u00a0${units[i]}`;
  };
  const perSecond = (perMicrosecond, what) => scaled(perMicrosecond, [`M${what}/s`, `G${what}/s`, `T${what}/s`, `P${what}/s`]);

  // What stands over time, and over which bytes.
  const works = [
    { key: "operations", ceiling: "operations_per_us", label: "Tensor operations as of f16", unit: "FLOP" },
    { key: "instructions", ceiling: "instructions_per_us", label: "Warp instructions", unit: "instr." },
  ];
  const levels = [
    { key: "dram_bytes", ceiling: "dram_gb_per_s", label: "device memory" },
    { key: "l2_bytes", ceiling: "l2_gb_per_s", label: "L2" },
  ];

  // The rows that such a plot can show.
  const drawable = (rows, work, level) => rows.filter((row) => row.us > 0 && row[work.key] > 0 && row[level.key] > 0);

  heddle.roofline = function (box, data, { shortNames, colourOf, holder }) {
    const rows = heddle.list(data.rows);
    const pairs = works.flatMap((work) => levels.map((level) => ({ work, level })))
      .filter(({ work, level }) => drawable(rows, work, level).length);
    if (!pairs.length) return;
    let chosen = pairs[0];
    const note = h("p", { class: "after" });
    const place = h("div", { class: "tools" });
    box.append(place);
    const legendPlace = h("div");
    box.append(legendPlace);
    const plot = holder(box, "roofline");
    const chart = heddle.makeChart(plot, {
      label: "Roofline: work per time over work per byte, a mark for each kernel",
      make: () => {
        const { work, level } = chosen;
        const shown = drawable(rows, work, level);
        const peak = data.ceilings[work.ceiling];
        const slope = data.ceilings[level.ceiling] * 1e3;  // bytes per microsecond
        const ridge = peak / slope;
        const points = shown.map((row) => ({ x: row[work.key] / row[level.key], y: row[work.key] / row.us, row }));
        const low = Math.min(ridge / 4, ...points.map((point) => point.x / 2));
        const high = Math.max(ridge * 4, ...points.map((point) => point.x * 2));
        const bottom = Math.min(slope * low, ...points.map((point) => point.y / 2));
        const longest = Math.max(...shown.map((row) => row.us));
        const ticks = { maxRotation: 0, callback: (value) => (Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9 ? value : null) };
        return {
          type: "scatter",
          data: { datasets: [
            { label: "roof", data: [{ x: low, y: slope * low }, { x: ridge, y: peak }, { x: high, y: peak }], showLine: true, pointRadius: 0,
              pointHitRadius: 0, borderColor: heddle.colour("muted"), borderWidth: 1.5, order: 1 },
            { label: "kernels", data: points, order: 0,
              pointRadius: points.map(({ row }) => 4 + 8 * Math.sqrt(row.us / longest)), pointHoverRadius: 12,
              borderColor: points.map(({ row }) => heddle.colour(colourOf(row.name))), borderWidth: 1.5,
              backgroundColor: points.map(({ row }) => heddle.alpha(heddle.colour(colourOf(row.name)), 0.35)) },
          ] },
          options: {
            layout: { padding: { right: 14, top: 8 } },
            interaction: { mode: "nearest", intersect: true },
            scales: {
              x: { type: "logarithmic", min: low, max: high, title: title(`${work.label} per byte of ${level.label}`),
                ticks: { ...ticks, callback: (value) => { const whole = ticks.callback(value); return whole === null ? null : heddle.number(whole); } } },
              y: { type: "logarithmic", min: bottom, max: peak * 2, title: title(`${work.label} per second`),
                ticks: { ...ticks, callback: (value) => { const whole = ticks.callback(value); return whole === null ? null : perSecond(whole, ""); } } },
            },
            plugins: { tooltip: {
              filter: (item) => item.dataset.label === "kernels",
              callbacks: { label: ({ raw: { x, y, row } }) => [shortNames.get(row.name) || row.name,
                `${perSecond(y, work.unit)}, ${heddle.percent(100 * y / Math.min(peak, slope * x))} of the roof there`,
                `${heddle.number(x)} per byte, ${heddle.count(row.launches, "launch").replace(/hs$/, "hes")}, ${heddle.time(row.us)}`] },
            } },
          },
        };
      },
    });
    const tell = () => {
      const { work, level } = chosen;
      const left = rows.length - drawable(rows, work, level).length;
      note.textContent = `The roof: ${perSecond(data.ceilings[work.ceiling], work.unit)}, and ${heddle.bandwidth(data.ceilings[level.ceiling])} of ${level.label}. `
        + (left ? `${heddle.count(left, "kernel")} without ${work.label.toLowerCase()} or without bytes of ${level.label} ${left === 1 ? "has" : "have"} no mark.` : "");
    };
    const choices = pairs.map((pair, value) => ({ value, label: `${pair.work.label} over bytes of ${pair.level.label}` }));
    if (pairs.length > 1) place.append(heddle.choice("Show", choices, 0, (value) => { chosen = pairs[value]; chart.redraw(); tell(); }));
    legendPlace.append(heddle.legend([
      ...rows.filter((row) => colourOf(row.name) !== "other").map((row) => ({ colour: `var(--${colourOf(row.name)})`, shape: "disc", clip: true,
        title: row.name, text: shortNames.get(row.name) || row.name || "(no name)" })),
      rows.some((row) => colourOf(row.name) === "other") && { colour: "var(--other)", shape: "disc", text: "other kernels" },
      { colour: "var(--muted)", shape: "line", text: "what the machine can do" }].filter(Boolean)));
    box.append(note);
    tell();
  };

  const used = (percent) => h("td", { class: "number" }, heddle.isNumber(percent) ? heddle.percent(percent) : "");
  const limited = ({ label, percent }) => `${label} (${heddle.percent(percent)})`;

  heddle.limitTable = (data, shortNames, table) => table(
    ["Kernel", "Time", "Limited by", "Then", ...resources.map(([, name]) => name), "Warps", "L1 hits", "L2 hits"],
    heddle.list(data.rows).map((row) => h("tr", {},
      h("th", { scope: "row", title: row.name }, heddle.clipped(shortNames.get(row.name) || row.name || "(no name)"),
        row.launches > 1 ? h("small", { class: "below" }, `${heddle.number(row.launches, 12)} launches`) : null),
      h("td", { class: "number" }, heddle.time(row.us)), h("td", { class: "strong" }, limited(row.limit)),
      h("td", { class: "muted" }, heddle.list(row.limit.next).map(limited).join(", ")),
      resources.map(([key]) => used((row.use || {})[key])), used(row.occupancy_percent), used(row.l1_hit_percent), used(row.l2_hit_percent))),
    [1, ...Array.from({ length: resources.length + 3 }, (_, i) => 4 + i)]);

  const reasons = (list) => heddle.list(list).slice(0, 3).map((one) => `${one.reason.replace("_", " ")} ${heddle.percent(one.share_percent)}`).join(", ");

  heddle.stallTables = (data, shortNames, table) => heddle.list(data.programs).map((program) => h("div", {},
    h("h4", { title: program.kernel }, shortNames.get(program.kernel) || program.kernel || "(no name)"),
    table(["Step", "Share", "Warps \u00d7 cycles", "Mostly"], heddle.list(program.lines).map((line) => h("tr", {},
      h("th", { scope: "row" }, h("code", {}, line.step || `instruction ${line.instruction}`)), heddle.shareBar(line.share_percent),
      h("td", { class: "number" }, heddle.number(line.warp_cycles, 12)), h("td", { class: "muted" }, reasons(line.reasons)))), [2]),
    program.left_out > 0 ? h("p", { class: "after" }, `${heddle.count(program.left_out, "more step")} in stalls.csv.`) : null));

  // What nobody's CTA has asked for.
  heddle.nobodysBytes = (nobody) => h("p", { class: "after" }, `Nobody\u2019s: ${heddle.bytes(nobody.l2_bytes)} in the L2, `
    + `${heddle.bytes(nobody.dram_read_bytes)} read from device memory and ${heddle.bytes(nobody.dram_written_bytes)} written to it: write-backs, copies, `
    + "page walks, the front end and hosts.");
})();
