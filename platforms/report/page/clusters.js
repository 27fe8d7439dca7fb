// Clusters (CGAs): totals, the SMs that the first of them ran on, how they waited, and who reached whose shared memory.
(() => {
  const { h } = heddle;
  const space = "\u00a0";
  const cycles = (value) => (heddle.isNumber(value) ? `${heddle.number(value)}${space}cycle${value === 1 ? "" : "s"}` : "\u2013");
  const colours = 8;

  // ---- totals ----
  const totalsTable = (data, table, shortNames) => {
    const waits = data.totals.some((row) => row.phases > 0);
    const heads = ["Kernel", "CTAs each", "CGAs", "SMs each", "Launch skew", "longest", "Lifetime", waits && "Barrier phases", waits && "Wait at barrier"];
    return table(heads.filter(Boolean), data.totals.map((row) => {
      const time = row.mean_cycles * data.cycle_us;
      const numbers = [heddle.number(row.size, 9), heddle.number(row.cgas, 12), heddle.fixed(row.mean_sms, row.mean_sms % 1 ? 2 : 0),
        cycles(row.mean_skew), cycles(row.max_skew), row.cgas ? heddle.time(time) : "\u2013", waits && heddle.number(row.phases, 12),
        waits && cycles(row.mean_wait)];
      return h("tr", {}, h("th", { scope: "row", class: "strong", title: row.kernel }, heddle.clipped(shortNames.get(row.kernel) || row.kernel || ""),
        row.guessed ? h("small", { class: "below" }, "cluster guessed from the name") : null,
        row.unfinished ? h("small", { class: "below" }, `${heddle.count(row.unfinished, "more CGA")}, not all of whose CTAs ended`) : null),
      numbers.filter((text) => text !== false).map((text) => h("td", { class: "number" }, text)));
    }), heads.map((_, i) => i).slice(1));
  };

  // ---- where they ran ----
  // The CTAs of one GPC as bars, by the row of their SM; CTAs that are on an SM at once lie below each other.
  function barsOf(first, gpc, sms) {
    const rows = sms.map((sm) => ({ sm, lanes: [], bars: [] }));
    const rowOf = new Map(rows.map((row) => [row.sm, row]));
    const bars = [];
    first.filter((cluster) => cluster.gpc === gpc).forEach((cluster, i) => {
      for (const [rank, sm, begin, end] of heddle.list(cluster.ctas))
        if (rowOf.has(sm)) bars.push({ cluster, rank, begin, end, row: rowOf.get(sm), colour: `k${i % colours}` });
    });
    bars.sort((a, b) => a.begin - b.begin || a.rank - b.rank);
    for (const bar of bars) {
      const { lanes } = bar.row;
      let lane = lanes.findIndex((free) => free <= bar.begin);
      if (lane < 0) lane = lanes.push(0) - 1;
      lanes[lane] = heddle.isNumber(bar.end) ? bar.end : Infinity;
      bar.lane = lane;
      bar.row.bars.push(bar);
    }
    return { rows, bars };
  }

  const tpcOf = (path) => String(path || "").split(".").slice(0, 3).join(".");

  function placesPlot(holder, data, view, names) {
    const unit = data.cycle_us;
    const top = 6;
    const canvas = h("canvas", { role: "img", "aria-label": "The first CGAs on the SMs of a GPC over time" });
    holder.prepend(canvas);
    let gpc = 0;
    let rows = [];
    let bars = [];
    let bottom = top;
    let laneHeight = 12;
    let highlighted = null;
    const area = () => {
      const { left, right } = heddle.timeMargins(holder.clientWidth);
      return { left, right: Math.max(left + 50, holder.clientWidth - right), top, bottom };
    };
    const endOf = (bar) => (heddle.isNumber(bar.end) ? bar.end * unit : view.full[1]);

    function layOut() {
      const { sms, paths } = data.gpcs[gpc];
      ({ rows, bars } = barsOf(data.first, gpc, sms));
      const lanes = heddle.sum(rows.map((row) => Math.max(1, row.lanes.length)));
      laneHeight = heddle.clamp(Math.floor((800 - 4 * rows.length) / lanes), 4, 18);
      let y = top;
      rows.forEach((row, i) => {
        row.path = paths[i];
        row.apart = i > 0 && tpcOf(paths[i]) !== tpcOf(paths[i - 1]);
        if (row.apart) y += 2;
        row.y = y;
        row.height = Math.max(13, row.lanes.length * laneHeight + 2);
        y += row.height;
      });
      bottom = y;
    }

    function draw() {
      const place = area();
      const scale = (place.right - place.left) / view.span;
      const context = heddle.sizeCanvas(canvas, Math.max(120, holder.clientWidth), bottom + heddle.timeAxisHeight);
      context.font = heddle.font();
      context.textBaseline = "middle";
      context.textAlign = "right";
      rows.forEach((row, i) => {
        if (i % 2 === 0) {
          context.fillStyle = heddle.colour("stripe");
          context.fillRect(place.left, row.y, place.right - place.left, row.height);
        }
        if (row.apart) {
          context.fillStyle = heddle.colour("border");
          context.fillRect(place.left, row.y - 2, place.right - place.left, 1);
        }
        context.fillStyle = heddle.colour("muted");
        context.fillText(`SM ${row.sm}`, place.left - 8, row.y + row.height / 2);
      });
      context.save();
      context.beginPath();
      context.rect(place.left, top, place.right - place.left, bottom - top);
      context.clip();
      context.textAlign = "center";
      const tall = laneHeight - (laneHeight > 6 ? 2 : 1);
      context.font = heddle.font(Math.min(11, tall + 1));
      for (const bar of bars) {
        const [begin, end] = [bar.begin * unit, endOf(bar)];
        if (begin > view.to || end < view.from) continue;
        const x = place.left + (begin - view.from) * scale;
        const w = Math.max(1, (end - begin) * scale - ((end - begin) * scale > 4 ? 1 : 0));
        const y = bar.row.y + 1 + bar.lane * laneHeight;
        context.globalAlpha = highlighted && highlighted !== bar.cluster ? 0.3 : 1;
        context.fillStyle = heddle.colour(bar.colour);
        context.fillRect(x, y, w, tall);
        const [from, to] = [Math.max(x, place.left), Math.min(x + w, place.right)];
        if (to - from > 16 && tall >= 8) {
          context.fillStyle = heddle.colour("on-kernel");
          context.fillText(String(bar.rank), (from + to) / 2, y + tall / 2 + 0.5);
        }
      }
      context.restore();
      context.strokeStyle = heddle.colour("grid");
      context.strokeRect(place.left + 0.5, top + 0.5, place.right - place.left - 1, bottom - top - 1);
      heddle.drawTimeAxis(context, view, place);
    }
    layOut();
    heddle.plot(draw);
    view.onChange(draw);
    heddle.onResize(holder, draw);

    function find(x, y) {
      const place = area();
      if (x < place.left || x > place.right) return null;
      const perPixel = view.span / (place.right - place.left);
      const time = view.from + (x - place.left) * perPixel;
      let best = null;
      let distance = 3 * perPixel;
      for (const row of rows) {
        if (y < row.y || y >= row.y + row.height) continue;
        const lane = heddle.clamp(Math.floor((y - row.y - 1) / laneHeight), 0, Math.max(0, row.lanes.length - 1));
        for (const bar of row.bars) {
          const away = Math.max(bar.begin * unit - time, time - endOf(bar), 0);
          if (bar.lane === lane && away < distance) { best = bar; distance = away; }
        }
      }
      return best;
    }
    function highlight(cluster) {
      if (cluster === highlighted) return;
      highlighted = cluster;
      draw();
    }
    heddle.timeGestures(holder, view, area, {
      hover(x, y, event) {
        const bar = find(x, y);
        highlight(bar && bar.cluster);
        if (!bar) return heddle.tooltip.hide();
        const { cluster } = bar;
        const size = (data.totals[cluster.row] || {}).size;
        heddle.tooltip.show(event.clientX, event.clientY, [`${names(cluster)}: CGA ${heddle.number(cluster.cga, 12)}`,
          ["CTA", `rank ${bar.rank} of ${size}`], ["SM", `${bar.row.sm} (${bar.row.path})`],
          ["On the SM", `${heddle.time(bar.begin * unit, 5)} to ${heddle.isNumber(bar.end) ? heddle.time(bar.end * unit, 5) : "the run's end"}`],
          ["Cycles", heddle.isNumber(bar.end) ? heddle.number(bar.end - bar.begin, 12) : "\u2013"],
          ["Launch skew of the CGA", cycles(cluster.skew)],
          cluster.ctas.length < size && ["CTAs that started", `${cluster.ctas.length} of ${size}`],
          cluster.phases > 0 && ["Barrier phases", heddle.number(cluster.phases, 12)],
          cluster.phases > 0 && ["Wait per warp and phase", cycles(cluster.mean_wait)]]);
      },
      leave() { highlight(null); heddle.tooltip.hide(); },
    });
    return (chosen) => { gpc = chosen; highlighted = null; layOut(); draw(); };
  }

  function gpcChooser(used, choose) {
    const buttons = used.map((gpc) => h("button", { type: "button", "aria-pressed": "false", onclick: () => press(gpc) }, `gpc${gpc}`));
    const press = (gpc) => {
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(used[i] === gpc)));
      choose(gpc);
    };
    return { element: h("div", { class: "buttons chooser" }, buttons), press };
  }

  function places(box, holder, data, names) {
    const ctas = data.first.flatMap((cluster) => heddle.list(cluster.ctas));
    const times = ctas.flatMap(([, , begin, end]) => [begin, heddle.isNumber(end) ? end : begin]);
    const low = times.reduce((a, b) => Math.min(a, b), Infinity) * data.cycle_us;
    const high = times.reduce((a, b) => Math.max(a, b), 0) * data.cycle_us;
    const margin = Math.max(0.01 * (high - low), data.cycle_us);
    const view = new heddle.TimeView(low - margin, high + margin);
    const used = [...new Set(data.first.map((cluster) => cluster.gpc))].filter((gpc) => data.gpcs[gpc]).sort((a, b) => a - b);
    const group = h("div", { class: "cluster-places" });
    box.append(group);
    let show = () => {};
    const chooser = gpcChooser(used, (gpc) => show(gpc));
    if (used.length > 1) group.append(chooser.element);
    group.append(heddle.timeToolbar(view));
    show = placesPlot(holder(group, "places"), data, view, names);
    chooser.press(used.includes(data.first[0].gpc) ? data.first[0].gpc : used[0]);
  }

  // ---- one mark per CGA, in the order of their start ----
  function marks(holder, data, names, { key, label, colour }) {
    const points = data.first.map((cluster, i) => ({ x: i + 1, y: cluster[key], cluster })).filter((point) => heddle.isNumber(point.y));
    const title = (text) => ({ display: true, text, color: heddle.colour("muted"), font: { size: 12 } });
    heddle.makeChart(holder, {
      label: `${label} of ${points.length} CGAs`,
      make: () => ({
        type: "scatter",
        data: { datasets: [{ label, data: points, pointRadius: points.length > 100 ? 2.5 : 3.5, pointHoverRadius: 6, borderWidth: 1,
          borderColor: heddle.alpha(heddle.colour(colour), 0.8), backgroundColor: heddle.alpha(heddle.colour(colour), 0.3) }] },
        options: {
          layout: { padding: { right: 14, top: 8 } },
          interaction: { mode: "nearest", intersect: true },
          scales: {
            x: { type: "linear", min: 0, max: data.first.length + 1, title: title("CGAs in the order of their start"),
              ticks: { precision: 0, maxRotation: 0, callback: (value) => (value === 0 || value > data.first.length ? null : heddle.number(value, 9)) } },
            y: { type: "linear", beginAtZero: true, suggestedMax: 4, grace: "5%", title: title(`${label} (cycles)`), ticks: { maxTicksLimit: 6 } },
          },
          plugins: { tooltip: { filter: (item, i) => i < 3, callbacks: { label: ({ raw: { cluster, y } }) =>
            [`${names(cluster)}: CGA ${cluster.cga} on gpc${cluster.gpc}`, cycles(y)] } } },
        },
      }),
    });
  }

  // ---- traffic ----
  const cellsOf = (matrix) => heddle.list(matrix).map(heddle.list);

  // `widest`: SMs of the largest GPC; the cells of all GPCs have one size.
  function heatMap(box, { name, sms, paths, bytes, sum }, most, widest) {
    const count = sms.length;
    const canvas = h("canvas", { role: "img", "aria-label": `Bytes between the SMs of ${name}` });
    const figure = h("figure", { class: "plot heat" }, h("figcaption", {}, h("b", {}, name), ` ${heddle.bytes(sum)}`), canvas);
    box.append(figure);
    const left = 34;
    const top = 30;
    let cell = 10;
    // TPCs stand a little apart.
    const offsets = [];
    sms.forEach((_, i) => offsets.push(i === 0 ? 0 : offsets[i - 1] + (tpcOf(paths[i]) === tpcOf(paths[i - 1]) ? 0 : 2)));
    const at = (i) => i * cell + offsets[i];
    const indexAt = (pixel) => sms.findIndex((_, i) => pixel >= at(i) && pixel < at(i) + cell);

    function draw() {
      cell = heddle.clamp(Math.floor((figure.clientWidth - left - 2 * widest) / widest), 4, 24);
      const size = at(count - 1) + cell;
      const context = heddle.sizeCanvas(canvas, left + size + 2, top + size + 2);
      const scale = heddle.loadColours(heddle.isDark());
      bytes.forEach((row, y) => row.forEach((value, x) => {
        // What is not 0 never looks like 0.
        const [r, g, b] = scale[value > 0 ? heddle.clamp(Math.round((100 * value) / most), 4, 100) : 0];
        context.fillStyle = `rgb(${r},${g},${b})`;
        context.fillRect(left + at(x), top + at(y), cell, cell);
        if (cell < 9) return;
        context.strokeStyle = heddle.colour("surface");
        context.lineWidth = 1;
        context.strokeRect(left + at(x) + 0.5, top + at(y) + 0.5, cell, cell);
      }));
      context.fillStyle = heddle.colour("muted");
      context.font = heddle.font(10);
      context.textBaseline = "middle";
      const every = cell >= 11 ? 1 : 2;
      sms.forEach((sm, i) => {
        if (i % every) return;
        context.textAlign = "right";
        context.fillText(String(sm), left - 4, top + at(i) + (every * cell) / 2);
        context.save();
        context.translate(left + at(i) + (every * cell) / 2, top - 4);
        context.rotate(-Math.PI / 2);
        context.textAlign = "left";
        context.fillText(String(sm), 0, 0);
        context.restore();
      });
    }
    heddle.plot(draw);
    heddle.onResize(figure, draw);
    canvas.addEventListener("pointermove", (event) => {
      const rectangle = canvas.getBoundingClientRect();
      const [from, to] = [indexAt(event.clientY - rectangle.top - top), indexAt(event.clientX - rectangle.left - left)];
      if (from < 0 || to < 0) return heddle.tooltip.hide();
      const value = (bytes[from] || [])[to];
      heddle.tooltip.show(event.clientX, event.clientY, [`SM ${sms[from]} to SM ${sms[to]}`, ["Sent", heddle.bytes(value)],
        value >= 1024 && ["Exactly", `${heddle.number(value, 15)}${space}B`], ["From", paths[from]], ["To", paths[to]]]);
    });
    canvas.addEventListener("pointerleave", heddle.tooltip.hide);
  }

  function traffic(box, gpcs) {
    const most = Math.max(...gpcs.flatMap((gpc) => gpc.bytes.flat()));
    box.append(heddle.scaleLegend(["0 B", `${heddle.bytes(most)} from one SM to another`]));
    const maps = h("div", { class: "heat-maps" });
    box.append(maps);
    const widest = Math.max(...gpcs.map((gpc) => gpc.sms.length));
    for (const gpc of gpcs) heatMap(maps, gpc, most, widest);
  }

  // All cards; `page` gives card(), holder(), table().
  heddle.clusterCards = function (parent, key, data, { card, holder, table, shortNames, navText }) {
    const clusters = { cycle_us: data.cycle_us, totals: heddle.list(data.totals), first: heddle.list(data.first), gpcs: heddle.list(data.gpcs) };
    const names = (cluster) => {
      const { kernel } = clusters.totals[cluster.row] || {};
      return shortNames.get(kernel) || kernel || "kernel";
    };
    if (clusters.totals.length)
      card(parent, { id: `${key}-clusters`, title: "Clusters", navText,
        lead: "Kernels whose CTAs run in groups (CGAs, also called thread block clusters): the CTAs of a group are on one GPC at the same time, "
          + "can wait for each other at a barrier of their own, and reach each other's shared memory. Launch skew: from the start of a group's "
          + "first CTA to that of its last one. Wait at barrier: of one warp in one phase, on average." },
      (box) => box.append(totalsTable(clusters, table, shortNames)));
    const { first } = clusters;
    const all = heddle.sum(clusters.totals.map((row) => (row.cgas || 0) + (row.unfinished || 0)));
    const shown = first.length === 1 && all <= 1 ? "The one CGA"
      : first.length >= all ? `All ${heddle.count(first.length, "CGA")}` : `The first ${heddle.count(first.length, "CGA")} of ${heddle.number(all, 12)}`;
    if (first.length) {
      card(parent, { id: `${key}-cluster-places`, title: first.length >= all ? "Where the CGAs ran" : "Where the first CGAs ran",
        lead: `${shown}: one row per SM, TPCs set apart; one bar per CTA, from its start on the SM to its end. `
          + "CTAs of one CGA have one colour, the number is the rank in the CGA. Zoom in to see the launch skew." },
      (box) => places(box, holder, clusters, names));
      const waits = first.some((cluster) => heddle.isNumber(cluster.mean_wait));
      if (first.length > 1)
        card(parent, { title: "Launch skew", wide: !waits, lead: `${shown}.` }, (box) =>
          marks(holder(box, "marks"), clusters, names, { key: "skew", label: "Launch skew", colour: "modelled" }));
      if (first.length > 1 && waits)
        card(parent, { title: "Wait at the cluster barrier", wide: false, lead: "Of one warp in one phase, on average over the CGA." }, (box) =>
          marks(holder(box, "marks"), clusters, names, { key: "mean_wait", label: "Wait", colour: "second" }));
    }
    const gpcs = clusters.gpcs.map((gpc, i) => ({ name: `gpc${i}`, sms: heddle.list(gpc.sms), paths: heddle.list(gpc.paths), bytes: cellsOf(gpc.bytes) }))
      .filter((gpc) => gpc.sms.length && gpc.bytes.length).map((gpc) => ({ ...gpc, sum: heddle.sum(gpc.bytes.flat()) })).filter((gpc) => gpc.sum > 0);
    if (gpcs.length)
      card(parent, { id: `${key}-dsmem`, title: "Traffic between SMs",
        lead: `Distributed shared memory (DSMEM): ${heddle.bytes(heddle.sum(gpcs.map((gpc) => gpc.sum)))} in all, requests and replies with their headers. `
          + "Per GPC, one row per SM that sends, one column per SM that receives; TPCs set apart." },
      (box) => traffic(box, gpcs));
  };
})();
