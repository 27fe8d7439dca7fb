// The plots that Chart.js draws: occupancy over time, recorded against modelled, launch latency.
(() => {
  const { h } = heddle;

  function makeChart(holder, configuration) {
    const canvas = h("canvas", { role: "img", "aria-label": configuration.label });
    holder.prepend(canvas);
    let chart = null;
    const draw = () => {
      if (chart) chart.destroy();
      const settings = configuration.make();
      Chart.defaults.font.family = heddle.colour("font");
      Chart.defaults.font.size = 12;
      Chart.defaults.color = heddle.colour("muted");
      Chart.defaults.borderColor = heddle.colour("grid");
      chart = new Chart(canvas, {
        ...settings,
        options: {
          responsive: true, maintainAspectRatio: false, animation: false, ...settings.options,
          plugins: {
            legend: { display: false },
            ...settings.options.plugins,
            tooltip: {
              backgroundColor: heddle.colour("tip"), titleColor: heddle.colour("tip-text"), bodyColor: heddle.colour("tip-text"),
              padding: 10, cornerRadius: 6, boxPadding: 4, ...settings.options.plugins.tooltip,
            },
          },
        },
      });
    };
    heddle.plot(draw);
    const current = () => chart;
    current.redraw = draw;
    return current;
  }
  heddle.makeChart = makeChart;

  const title = (text) => ({ display: true, text, color: heddle.colour("muted"), font: { size: 12 } });

  // ---- occupancy ----
  heddle.occupancyPlot = function (holder, occupancy, view) {
    const bin = occupancy.bin_us;
    // A bin holds its value until the next one begins; the last one until its end.
    const steps = (values) => heddle.list(values).map((y, i) => ({ x: i * bin, y }))
      .concat(heddle.list(values).length ? [{ x: values.length * bin, y: values[values.length - 1] }] : []);
    const warps = steps(occupancy.warps_percent);
    const busy = steps(occupancy.sms_busy_percent);
    const label = (x) => `${heddle.time(Math.floor(x / bin) * bin, 4)} to ${heddle.time((Math.floor(x / bin) + 1) * bin, 4)}`;
    const chart = makeChart(holder, {
      label: "Occupancy over time: percentage of warp slots in use and of SMs with work",
      make: () => ({
        type: "line",
        data: { datasets: [
          warps.length && { label: "Warp slots in use", data: warps, stepped: true, pointRadius: 0, borderWidth: 1.2, parsing: false,
            borderColor: heddle.colour("modelled"), backgroundColor: heddle.alpha(heddle.colour("modelled"), 0.22), fill: "origin" },
          busy.length && { label: "SMs with work", data: busy, stepped: true, pointRadius: 0, borderWidth: 1.2, parsing: false,
            borderColor: heddle.colour("second"), backgroundColor: heddle.colour("second") },
        ].filter(Boolean) },
        options: {
          layout: { padding: { right: heddle.timeMargins(holder.clientWidth).right, top: 8 } },
          interaction: { mode: "index", intersect: false, axis: "x" },
          scales: {
            x: {
              type: "linear", min: view.from, max: view.to,
              title: title(`Time since the start of the run (${heddle.timeTicks(view.from, view.to, 800).unit})`),
              ticks: { autoSkip: false, maxRotation: 0, callback: (value, i, ticks) => ticks[i].text },
              afterBuildTicks: (scale) => {
                const { ticks, label: text } = heddle.timeTicks(scale.min, scale.max, scale.width || holder.clientWidth - 110);
                scale.ticks = ticks.map((value) => ({ value, text: text(value) }));
              },
              afterFit: (scale) => { scale.paddingLeft = 0; scale.paddingRight = 0; },
            },
            y: {
              min: 0, max: 100, title: title("In use (%)"), ticks: { stepSize: 25 },
              afterFit: (scale) => { scale.width = heddle.timeMargins(holder.clientWidth).left; },
            },
          },
          plugins: { tooltip: { callbacks: {
            title: (items) => (items.length ? label(items[0].parsed.x) : ""),
            label: (item) => ` ${item.dataset.label}: ${heddle.percent(item.parsed.y)}`,
          } } },
        },
      }),
    });
    view.onChange(() => {
      const { options } = chart();
      options.scales.x.min = view.from;
      options.scales.x.max = view.to;
      options.scales.x.title.text = `Time since the start of the run (${heddle.timeTicks(view.from, view.to, 800).unit})`;
      chart().update("none");
    });
    heddle.timeGestures(holder, view, () => chart().chartArea);
    const entries = () => [
      warps.length && { colour: "var(--modelled)", text: `Warp slots in use (mean ${heddle.percent(mean(occupancy.warps_percent))})` },
      busy.length && { colour: "var(--second)", shape: "line", text: `SMs with at least one CTA (mean ${heddle.percent(mean(occupancy.sms_busy_percent))})` },
    ].filter(Boolean);
    holder.before(heddle.legend(entries()));
  };
  const mean = (values) => heddle.sum(values.filter(heddle.isNumber)) / Math.max(1, values.length);

  // ---- recorded against modelled ----
  const shapes = [["circle", "modelled"], ["triangle", "baseline"], ["rectRot", "second"], ["rect", "third"], ["star", "muted"], ["cross", "bad"]];
  const shapeClass = { circle: "disc", triangle: "triangle", rectRot: "diamond", rect: "square", star: "asterisk", cross: "times" };

  heddle.scatterPlot = function (holder, kernels, shortNames) {
    const comparable = kernels.filter((kernel) => kernel.recorded_us > 0 && kernel.us > 0);
    const kinds = new Map();
    for (const kernel of comparable) {
      const kind = kernel.match || (kernel.overlaps ? "overlaps" : "ok");
      if (!kinds.has(kind)) kinds.set(kind, []);
      kinds.get(kind).push(kernel);
    }
    // "ok" first, whatever its number, so that it always has the same mark.
    const sorted = [...kinds].sort(([a, x], [b, y]) => (b === "ok") - (a === "ok") || y.length - x.length);
    let low = Infinity;
    let high = 0;
    for (const { us, recorded_us: recorded } of comparable) {
      low = Math.min(low, us, recorded);
      high = Math.max(high, us, recorded);
    }
    low /= 1.25;
    high *= 1.25;
    const band = {
      id: "band",
      beforeDatasetsDraw({ ctx, chartArea, scales: { x, y } }) {
        ctx.save();
        ctx.beginPath();
        ctx.rect(chartArea.left, chartArea.top, chartArea.width, chartArea.height);
        ctx.clip();
        ctx.beginPath();
        for (const [at, factor] of [[low, 1.05], [high, 1.05], [high, 0.95], [low, 0.95]])
          ctx.lineTo(x.getPixelForValue(at), y.getPixelForValue(at * factor));
        ctx.fillStyle = heddle.alpha(heddle.colour("ok"), 0.22);
        ctx.fill();
        ctx.beginPath();
        ctx.moveTo(x.getPixelForValue(low), y.getPixelForValue(low));
        ctx.lineTo(x.getPixelForValue(high), y.getPixelForValue(high));
        ctx.strokeStyle = heddle.colour("muted");
        ctx.lineWidth = 1;
        ctx.setLineDash([5, 4]);
        ctx.stroke();
        ctx.restore();
      },
    };
    const axis = (text) => ({
      type: "logarithmic", min: low, max: high, title: title(text),
      ticks: { maxRotation: 0, autoSkip: false, callback: (value) => {
        const leading = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
        const dense = high / low < 300 ? [1, 2, 5] : [1];
        return dense.some((digit) => Math.abs(leading - digit) < 1e-6) ? heddle.number(value) : null;
      } },
    });
    makeChart(holder, {
      label: `Modelled against recorded duration of ${comparable.length} kernels`,
      make: () => ({
        type: "scatter",
        data: { datasets: sorted.map(([kind, list], i) => {
          const [shape, colour] = shapes[Math.min(i, shapes.length - 1)];
          return { label: kind, data: list.map((kernel) => ({ x: kernel.recorded_us, y: kernel.us, kernel })), pointStyle: shape,
            pointRadius: shape === "circle" ? 2.5 : 4, pointHoverRadius: 6, borderColor: heddle.alpha(heddle.colour(colour), 0.8), borderWidth: 1,
            backgroundColor: heddle.alpha(heddle.colour(colour), 0.3), order: sorted.length - i };
        }) },
        options: {
          layout: { padding: { right: 14, top: 8 } },
          interaction: { mode: "nearest", intersect: true },
          scales: { x: axis("Recorded duration (\u00b5s)"), y: axis("Modelled duration (\u00b5s)") },
          plugins: { tooltip: {
            filter: (item, i) => i < 3,
            callbacks: {
              label: ({ raw: { kernel } }) => [`${ellipsis(shortNames.get(kernel.name) || kernel.name, 44)}`,
                `recorded ${heddle.time(kernel.recorded_us)}, modelled ${heddle.time(kernel.us)} (${heddle.deviation(100 * (kernel.us / kernel.recorded_us - 1))})`],
            },
          } },
        },
        plugins: [band],
      }),
    });
    const within = comparable.filter((kernel) => Math.abs(kernel.us / kernel.recorded_us - 1) <= 0.05).length;
    holder.before(heddle.legend([
      ...sorted.map(([kind, list], i) => ({ colour: `var(--${shapes[Math.min(i, shapes.length - 1)][1]})`,
        shape: shapeClass[shapes[Math.min(i, shapes.length - 1)][0]], text: `${kind} (${heddle.number(list.length, 9)})` })),
      { colour: "var(--ok)", shape: "band", text: "within \u00b15 %" }]));
    return { compared: comparable.length, within };
  };
  const ellipsis = (text, length) => (text.length <= length ? text : `${text.slice(0, length - 1)}\u2026`);

  // ---- launch latency ----
  heddle.latencyPlot = function (holder, latency) {
    const counts = heddle.list(latency.counts);
    const edges = heddle.list(latency.edges);
    const unit = heddle.unitName(latency.unit);
    // The boundaries of the bars; null is an open end.
    const bounds = edges.slice();
    if (counts.length > edges.length) bounds.unshift(null);
    if (counts.length >= edges.length) bounds.push(null);
    const boundText = (i) => (bounds[i] === null ? (i === 0 ? "less" : "more") : heddle.number(bounds[i]));
    const rangeText = (i) => bounds[i] === null ? `below ${heddle.number(bounds[i + 1])}\u00a0${unit}`
      : bounds[i + 1] === null ? `${heddle.number(bounds[i])}\u00a0${unit} and more`
        : `${heddle.number(bounds[i])} to ${heddle.number(bounds[i + 1])}\u00a0${unit}`;
    // Where a value lies between the boundaries, in bars from the left.
    const place = (value) => {
      for (let i = 0; i + 1 < bounds.length; ++i) {
        const [low, high] = [bounds[i], bounds[i + 1]];
        if (low !== null && value < low) continue;
        if (high !== null && value >= high) continue;
        if (low === null || high === null) return i + 0.5;
        return low > 0 ? i + Math.log(value / low) / Math.log(high / low) : i + (value - low) / (high - low);
      }
      return value >= (edges[edges.length - 1] || 0) ? bounds.length - 1 : 0;
    };
    const marks = [["p50", latency.p50], ["p95", latency.p95], ["max", latency.max]].filter(([, value]) => heddle.isNumber(value));
    const lines = {
      id: "marks",
      afterDatasetsDraw({ ctx, chartArea, scales: { x } }) {
        ctx.save();
        ctx.font = heddle.font(12, 600);
        ctx.textBaseline = "top";
        let occupied = [];
        for (const [name, value] of marks) {
          const at = x.getPixelForValue(place(value));
          const text = name;
          const width = ctx.measureText(text).width;
          const left = at + 5 + width > chartArea.right ? at - 5 - width : at + 5;
          let row = 0;
          while (occupied.some((other) => other.row === row && left < other.right + 4 && left + width > other.left - 4)) ++row;
          occupied.push({ row, left, right: left + width });
          ctx.strokeStyle = heddle.colour("text");
          ctx.setLineDash([4, 3]);
          ctx.beginPath();
          ctx.moveTo(at, chartArea.top);
          ctx.lineTo(at, chartArea.bottom);
          ctx.stroke();
          ctx.fillStyle = heddle.colour("text");
          ctx.fillText(text, left, chartArea.top + 2 + 15 * row);
        }
        ctx.restore();
      },
    };
    makeChart(holder, {
      label: `Histogram of launch latency in ${unit}`,
      make: () => ({
        type: "bar",
        data: { datasets: [{ label: "tasks", data: counts.map((y, i) => ({ x: i + 0.5, y })), barPercentage: 0.96, categoryPercentage: 1,
          backgroundColor: heddle.alpha(heddle.colour("modelled"), 0.75), minBarLength: 2 }] },
        options: {
          layout: { padding: { right: 14, top: 8 } },
          interaction: { mode: "index", intersect: false },
          scales: {
            x: { type: "linear", min: 0, max: counts.length, offset: false, grid: { offset: false }, title: title(`Launch latency (${unit})`),
              ticks: { autoSkip: true, autoSkipPadding: 8, maxRotation: 0, callback: (value, i, ticks) => ticks[i].text },
              afterBuildTicks: (scale) => { scale.ticks = bounds.map((bound, value) => ({ value, text: boundText(value) })); } },
            y: { beginAtZero: true, title: title("Tasks"), ticks: { precision: 0 } },
          },
          plugins: { tooltip: { callbacks: { title: (items) => (items.length ? rangeText(items[0].dataIndex) : ""),
            label: (item) => ` ${heddle.count(item.parsed.y, "task")}` } } },
        },
        plugins: [lines],
      }),
    });
    holder.before(h("p", { class: "figures" }, marks.map(([name, value]) =>
      h("span", {}, `${name} `, h("b", {}, `${heddle.number(value)}\u00a0${unit}`)))));
  };
})();
