// Where the time of a kernel goes that was launched by a packet: stacked bars, one colour per part.
(() => {
  const { h } = heddle;
  const names = { clean_up: "clean-up" };
  const colours = { enqueue: "k5", fetch: "k6", wait: "other", decode: "k1", dispatch: "k3", launch: "k4", execution: "k2", clean_up: "k7" };
  const colourOf = (part) => `var(--${colours[part.key] || "other"})`;
  const nameOf = (part) => names[part.key] || part.key;

  // `us`: by part; `longest`: what fills the whole width.
  function bar(parts, us, longest, title) {
    const total = heddle.sum(us);
    const track = h("div", { class: "stack" }, parts.map((part, i) => (us[i] > 0 ? h("i", {
      style: { width: `${(100 * us[i]) / longest}%`, background: colourOf(part) } }) : null)));
    const lines = [title, ...parts.map((part, i) => [nameOf(part), `${heddle.time(us[i])} (${heddle.percent((100 * us[i]) / (total || 1))})`])];
    track.addEventListener("pointermove", (event) => heddle.tooltip.show(event.clientX, event.clientY, lines));
    track.addEventListener("pointerleave", heddle.tooltip.hide);
    return track;
  }

  // `data`: {parts, rows, total}. A row's own_us are its parts as they lie behind each other.
  heddle.packetParts = function (box, data, { shortNames, table }) {
    const parts = heddle.list(data.parts);
    const rows = heddle.list(data.rows).map((row) => ({ ...row, us: heddle.list(row.own_us).map((us) => us / Math.max(1, row.launches)) }));
    const total = data.total || { own_us: [], all_us: [] };
    const whole = heddle.sum(heddle.list(total.own_us));
    const longest = Math.max(...rows.map((row) => heddle.sum(row.us)), 1e-9);
    box.append(heddle.legend(parts.map((part) => ({ colour: colourOf(part), text: nameOf(part), title: part.what }))));
    box.append(h("div", { class: "bars" }, rows.map((row) => h("div", { class: "bar-row" },
      h("div", { class: "bar-name", title: row.kernel }, heddle.clipped(shortNames.get(row.kernel) || row.kernel || "(no name)"),
        h("small", {}, `${heddle.count(row.launches, "launch").replace(/hs$/, "hes")} in ${heddle.count(row.packets, "packet")}`)),
      h("div", { class: "bar-line" }, bar(parts, row.us, longest, `${row.kernel}, mean of a launch`),
        h("span", { class: "bar-value" }, heddle.time(heddle.sum(row.us)), h("small", {}, " per launch")))))));
    box.append(h("h4", {}, "All kernels"));
    box.append(bar(parts, heddle.list(total.own_us), Math.max(whole, 1e-9), "all kernels"));
    box.append(table(["Part", "Time", "Share", "With what overlaps", "What it is"], parts.map((part, i) => h("tr", {},
      h("th", { scope: "row" }, h("i", { class: "chip", style: { background: colourOf(part) } }), nameOf(part)),
      h("td", { class: "number strong" }, heddle.time(heddle.list(total.own_us)[i])),
      h("td", { class: "number" }, heddle.percent((100 * heddle.list(total.own_us)[i]) / (whole || 1))),
      h("td", { class: "number" }, heddle.time(heddle.list(total.all_us)[i])),
      h("td", { class: "muted" }, part.what))), [1, 2, 3]));
  };
})();
