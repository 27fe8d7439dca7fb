// What a run took in energy, by block, and power and clock over time.
(() => {
  const { h } = heddle;
  const space = "\u00a0";

  const scaled = (value, units) => {
    let i = 0;
    while (value < 1 && i + 1 < units.length) { value *= 1000; ++i; }
    return `${heddle.number(value)}${space}${units[i]}`;
  };
  heddle.joules = (value) => (value === 0 ? `0${space}J` : scaled(value, ["J", "mJ", "\u00b5J", "nJ"]));
  heddle.watts = (value) => `${heddle.number(value)}${space}W`;

  // One bar for each block, the largest first.
  heddle.powerRows = (data) => heddle.list(data.parts).filter((part) => part.joules > 0).sort((a, b) => b.joules - a.joules)
    .map((part) => ({ name: part.label, bars: [{ us: part.joules, text: heddle.watts(part.watts), colour: "var(--modelled)",
      extra: `${heddle.joules(part.joules)}, ${heddle.percent((100 * part.joules) / data.joules)}` }] }));

  heddle.powerPlot = function (holder, series) {
    // A stretch holds its value until the next one begins.
    const steps = (values) => heddle.list(values).map((y, i) => ({ x: series.us[i], y }))
      .concat([{ x: series.us[values.length], y: values[values.length - 1] }]);
    const title = (text) => ({ display: true, text, color: heddle.colour("muted") });
    const line = (label, values, axis, colour) => ({ label, data: steps(values), yAxisID: axis, stepped: true, pointRadius: 0, borderWidth: 1.4,
      parsing: false, borderColor: heddle.colour(colour), backgroundColor: heddle.colour(colour) });
    heddle.makeChart(holder, {
      label: "Power and clock over time",
      make: () => ({
        type: "line",
        data: { datasets: [line("Power (W)", series.watts, "watts", "modelled"), line("Clock (GHz)", series.ghz, "clock", "second")] },
        options: {
          interaction: { mode: "index", intersect: false, axis: "x" },
          scales: {
            x: { type: "linear", title: title("Time since the start of the run (\u00b5s)"), ticks: { maxRotation: 0 } },
            watts: { position: "left", min: 0, title: title("Power (W)") },
            clock: { position: "right", min: 0, title: title("Clock (GHz)"), grid: { drawOnChartArea: false } },
          },
          plugins: { tooltip: { callbacks: { title: (items) => (items.length ? heddle.time(items[0].parsed.x, 4) : "") } } },
        },
      }),
    });
    holder.before(heddle.legend([{ colour: "var(--modelled)", shape: "line", text: "Power" }, { colour: "var(--second)", shape: "line", text: "Clock" }]));
  };
})();
