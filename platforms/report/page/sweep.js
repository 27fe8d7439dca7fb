// The page of a sweep: figures over swept values, heat map, Pareto front, what moves the figures, table, failures.
(() => {
  const { h, card, holder, cells, headline, guarded, choice, amount } = heddle;
  const main = document.getElementById("main");
  const manyValues = 12;  // of an axis: more are no lines and no columns

  function model(data) {
    const axes = heddle.list(data.axes).map((axis, index) => {
      const at = (point) => heddle.list(point.at)[index];
      let values = [...new Set(heddle.list(data.points).map(at))];
      if (axis.numeric) values.sort((a, b) => a - b);
      else values = heddle.list(axis.values).filter((value) => values.includes(value));
      const title = axis.unit ? `${axis.name} (${axis.unit})` : axis.name;
      return { ...axis, index, values, at, title, text: (value) => (axis.numeric ? amount(value, "", 6) : String(value)) };
    });
    const figures = heddle.list(data.figures).map((figure, index) => ({ ...figure, index,
      of: (point) => heddle.list(point.values)[index], title: figure.unit ? `${figure.name} (${heddle.unitName(figure.unit)})` : figure.name }));
    return { data, axes, figures, points: heddle.list(data.points) };
  }

  const named = (list, name, otherwise) => list.find((one) => one.name === name) || otherwise;
  const options = (list) => list.map((one) => ({ label: one.title || one.name, value: one }));
  const describe = (m, point) => m.axes.map((axis) => `${axis.name}\u00a0${axis.text(axis.at(point))}`).join(", ");
  const mean = (values) => (values.length ? heddle.sum(values) / values.length : null);

  function tiles(m) {
    const count = (test) => m.points.filter(test).length;
    const done = count((point) => point.status === "done");
    const missing = count((point) => point.status === "not run");
    const bad = m.points.length - done - missing;
    const list = [{ label: "Points", value: heddle.number(m.points.length, 9), note: m.data.samples ? "drawn at random" : "of a grid" },
      { label: "Done", value: heddle.number(done, 9), note: missing ? `${heddle.number(missing, 9)} not run` : "" },
      { label: "Not well", value: heddle.number(bad, 9), note: bad ? "listed below, with their reasons" : "" }];
    for (const figure of m.figures.filter((one) => one.better).slice(0, 2)) {
      const known = m.points.filter((point) => heddle.isNumber(figure.of(point)));
      if (!known.length) continue;
      const best = known.reduce((a, b) => ((figure.of(b) < figure.of(a)) === (figure.better === "less") && figure.of(b) !== figure.of(a) ? b : a));
      list.push({ label: `Best ${figure.name}`, value: amount(figure.of(best), figure.unit), note: `point ${best.point}: ${describe(m, best)}` });
    }
    headline({ command: m.data.command, highlights: list });
  }

  // Choices for the values of axes that a plot does not show: one value, or the mean over all.
  function fixings(m, shown, fixed, redraw) {
    return m.axes.filter((axis) => !shown.includes(axis) && axis.values.length > 1).map((axis) => {
      if (!fixed.has(axis.index)) fixed.set(axis.index, m.data.samples ? null : axis.values[0]);
      return choice(axis.name, [...axis.values.slice(0, 200).map((value) => ({ label: axis.text(value), value })), { label: "mean of all", value: null }],
        fixed.get(axis.index), (value) => { fixed.set(axis.index, value); redraw(); });
    });
  }
  const chosen = (m, shown, fixed) => m.points.filter((point) => m.axes.every((axis) => shown.includes(axis) || axis.values.length < 2
    || fixed.get(axis.index) === null || axis.at(point) === fixed.get(axis.index)));

  const axisTitle = (text) => ({ display: true, text, color: heddle.colour("muted"), font: { size: 12 } });
  // A log scale for numbers that grow by factors.
  function scaleOf(axis) {
    if (!axis.numeric) return { type: "category", labels: axis.values.map(axis.text), title: axisTitle(axis.title), offset: true };
    const [low, high] = [axis.values[0], axis.values[axis.values.length - 1]];
    const log = low > 0 && (axis.log || high / low >= 16);
    const scale = { type: log ? "logarithmic" : "linear", title: axisTitle(axis.title), ticks: { maxRotation: 0, autoSkip: true, autoSkipPadding: 12,
      callback: (value) => amount(value, "", 6) } };
    if (low === high) return scale;
    if (axis.values.length <= manyValues) scale.afterBuildTicks = (built) => { built.ticks = axis.values.map((value) => ({ value })); };
    const room = log ? Math.exp(0.03 * Math.log(high / low)) : 0.03 * (high - low);
    return { ...scale, min: log ? low / room : low - room, max: log ? high * room : high + room };
  }

  // A scale for a figure: from 0 on where it is not below, and by factors where it grows by many.
  function figureScale(figure, values) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const log = low > 0 && high / low >= 100;
    return { type: log ? "logarithmic" : "linear", title: axisTitle(figure.title), ...(log ? {} : { grace: "5%" }), ...(low >= 0 && !log ? { min: 0 } : {}),
      ticks: { maxRotation: 0, autoSkip: true, autoSkipPadding: 12, callback: (value) => amount(value, "", 4) } };
  }

  function overAxis(m) {
    const state = { figure: named(m.figures, m.data.choice && m.data.choice.figure, m.figures[0]), fixed: new Map() };
    const varied = m.axes.filter((axis) => axis.values.length > 1);
    if (!varied.length || !m.figures.length) return;
    state.x = named(varied, m.data.choice && m.data.choice.x, varied.find((axis) => axis.numeric) || varied[0]);
    const groups = varied.filter((axis) => axis.values.length <= manyValues);
    const wanted = named(groups, m.data.choice && m.data.choice.lines, groups.find((axis) => axis !== state.x) || null);
    state.lines = wanted === state.x ? null : wanted;
    card(main, { id: "over", title: "Figures over swept values", navText: "Over values",
      lead: m.data.samples ? "One mark per point." : "A mark is a point, or the mean of several where an axis is not held." }, (box) => {
      const controls = h("div", { class: "controls" });
      const legend = h("div", {});
      box.append(controls, legend);
      const plot = holder(box, "over");
      const series = () => {
        const shown = [state.x, state.lines].filter(Boolean);
        const points = chosen(m, shown, state.fixed).filter((point) => heddle.isNumber(state.figure.of(point)));
        return (state.lines ? state.lines.values : [null]).map((value, i) => {
          const own = points.filter((point) => !state.lines || state.lines.at(point) === value);
          const marks = m.data.samples ? own.map((point) => ({ at: state.x.at(point), y: state.figure.of(point), of: [point] }))
            : state.x.values.map((at) => {
              const of = own.filter((point) => state.x.at(point) === at);
              return { at, y: mean(of.map(state.figure.of)), of };
            }).filter((mark) => mark.of.length);
          return { label: state.lines ? `${state.lines.name} ${state.lines.text(value)}` : state.figure.name, colour: `k${i % 8}`, dash: i >= 8 ? [6, 4] : [],
            data: marks.map((mark) => ({ x: state.x.numeric ? mark.at : state.x.text(mark.at), y: mark.y, of: mark.of })) };
        });
      };
      const chart = heddle.makeChart(plot, {
        label: "Figures over swept values",
        make: () => ({
          type: "line",
          data: { datasets: series().map((one) => ({ label: one.label, data: one.data, borderColor: heddle.colour(one.colour), backgroundColor: heddle.colour(one.colour),
            borderDash: one.dash, borderWidth: 2, pointRadius: 3.5, pointHoverRadius: 6, showLine: !m.data.samples, spanGaps: true })) },
          options: {
            layout: { padding: { right: 14, top: 8 } },
            interaction: { mode: "nearest", intersect: true },
            scales: { x: scaleOf(state.x), y: figureScale(state.figure, series().flatMap((one) => one.data.map((mark) => mark.y))) },
            plugins: { tooltip: { callbacks: {
              title: (items) => (items.length ? `${state.x.name} ${state.x.numeric ? state.x.text(items[0].raw.x) : items[0].raw.x}` : ""),
              label: ({ raw, dataset }) => [` ${dataset.label}: ${amount(raw.y, state.figure.unit)}`,
                raw.of.length === 1 ? ` point ${raw.of[0].point}: ${describe(m, raw.of[0])}` : ` mean of ${raw.of.length} points`],
            } } },
          },
        }),
      });
      const redraw = () => {
        const shown = [state.x, state.lines].filter(Boolean);
        controls.replaceChildren(
          choice("Figure", options(m.figures), state.figure, (value) => { state.figure = value; redraw(); }),
          choice("over", options(varied), state.x, (value) => { state.x = value; if (state.lines === value) state.lines = null; redraw(); }),
          choice("a line for each", [{ label: "(one line)", value: null }, ...options(groups.filter((axis) => axis !== state.x))], state.lines,
            (value) => { state.lines = value; redraw(); }),
          ...fixings(m, shown, state.fixed, redraw));
        legend.replaceChildren(state.lines ? heddle.legend(series().map((one) => ({ colour: `var(--${one.colour})`, text: one.label }))) : "");
        chart.redraw();
      };
      redraw();
    });
  }

  function heatMap(m) {
    const axes = m.axes.filter((axis) => axis.values.length > 1 && axis.values.length <= 40);
    if (axes.length < 2 || !m.figures.length || m.data.samples) return;
    const state = { figure: named(m.figures, m.data.choice && m.data.choice.figure, m.figures[0]), fixed: new Map() };
    state.x = named(axes, m.data.choice && m.data.choice.x, axes[0]);
    const other = named(axes, m.data.choice && m.data.choice.lines, null);
    state.y = other && other !== state.x ? other : axes.find((axis) => axis !== state.x);
    card(main, { id: "heat", title: "Two axes at once", navText: "Heat map", lead: "The darker, the larger; the best is framed where the sweep says what is better." }, (box) => {
      const controls = h("div", { class: "controls" });
      const place = h("div", { class: "scroll" });
      box.append(controls, place);
      const draw = () => {
        const points = chosen(m, [state.x, state.y], state.fixed);
        const at = (x, y) => points.filter((point) => state.x.at(point) === x && state.y.at(point) === y);
        const value = (list) => mean(list.map(state.figure.of).filter(heddle.isNumber));
        const all = state.y.values.flatMap((y) => state.x.values.map((x) => value(at(x, y)))).filter(heddle.isNumber);
        const [low, high] = [Math.min(...all), Math.max(...all)];
        const best = state.figure.better === "less" ? low : state.figure.better === "more" ? high : null;
        place.replaceChildren(h("table", { class: "heat-table" },
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, `${state.y.title} \\ ${state.x.title}`), state.x.values.map((x) => h("th", { scope: "col" }, state.x.text(x))))),
          h("tbody", {}, state.y.values.map((y) => h("tr", {}, h("th", { scope: "row" }, state.y.text(y)), state.x.values.map((x) => {
            const list = at(x, y);
            const its = value(list);
            if (its === null) {
              const told = list.find((point) => point.status !== "done");
              return h("td", { class: "none", title: told ? `${told.status}: ${told.reason || ""}` : null }, told ? told.status : "");
            }
            const part = high > low ? (its - low) / (high - low) : 0;
            return h("td", { class: its === best && high > low ? "best" : null, style: { background: heddle.alpha(heddle.colour("modelled"), 0.08 + 0.5 * part) },
              title: list.length === 1 ? `point ${list[0].point}: ${describe(m, list[0])}` : `mean of ${list.length} points` }, amount(its, "", 4));
          }))))));
      };
      const redraw = () => {
        controls.replaceChildren(choice("Figure", options(m.figures), state.figure, (one) => { state.figure = one; redraw(); }),
          choice("columns", options(axes.filter((axis) => axis !== state.y)), state.x, (one) => { state.x = one; redraw(); }),
          choice("rows", options(axes.filter((axis) => axis !== state.x)), state.y, (one) => { state.y = one; redraw(); }),
          ...fixings(m, [state.x, state.y], state.fixed, redraw));
        draw();
      };
      redraw();
      heddle.redraws.push(draw);
    });
  }

  // Points that no other beats in both figures.
  heddle.paretoFront = function (points, first, second, firstLess, secondLess) {
    const worth = points.map((point) => ({ point, a: firstLess ? first(point) : -first(point), b: secondLess ? second(point) : -second(point) }));
    worth.sort((p, q) => p.a - q.a || p.b - q.b);
    const front = [];
    let best = Infinity;
    let at = null;
    for (const one of worth) {
      // Equal ones are both on it.
      if (one.b < best || (one.b === best && one.a === at)) {
        front.push(one.point);
        best = one.b;
        at = one.a;
      }
    }
    return front;
  };

  function pareto(m) {
    if (m.figures.length < 2) return;
    const wanted = heddle.list(m.data.choice && m.data.choice.pareto);
    const state = { a: named(m.figures, wanted[0], m.figures.find((figure) => figure.better) || m.figures[0]) };
    state.b = named(m.figures, wanted[1], m.figures.find((figure) => figure !== state.a && figure.better) || m.figures.find((figure) => figure !== state.a));
    state.less = new Map(m.figures.map((figure) => [figure, figure.better !== "more"]));
    card(main, { id: "pareto", title: "Two figures against each other", navText: "Pareto front",
      lead: "On the line are the points that no other point beats in both figures." }, (box) => {
      const controls = h("div", { class: "controls" });
      box.append(controls);
      const plot = holder(box, "front");
      const listing = h("div", { class: "more" });
      box.append(listing);
      const known = () => m.points.filter((point) => heddle.isNumber(state.a.of(point)) && heddle.isNumber(state.b.of(point)));
      const front = () => heddle.paretoFront(known(), state.a.of, state.b.of, state.less.get(state.a), state.less.get(state.b));
      const mark = (point) => ({ x: state.a.of(point), y: state.b.of(point), point });
      const chart = heddle.makeChart(plot, {
        label: "Two figures against each other, with their Pareto front",
        make: () => ({
          type: "scatter",
          data: { datasets: [
            { label: "front", data: front().map(mark), showLine: true, borderColor: heddle.colour("baseline"), backgroundColor: heddle.colour("baseline"), borderWidth: 2, pointRadius: 5, pointHoverRadius: 7 },
            { label: "points", data: known().map(mark), borderColor: heddle.colour("modelled"), backgroundColor: heddle.alpha(heddle.colour("modelled"), 0.45), pointRadius: 3.5, pointHoverRadius: 6 },
          ] },
          options: {
            layout: { padding: { right: 14, top: 8 } },
            interaction: { mode: "nearest", intersect: true },
            scales: { x: figureScale(state.a, known().map(state.a.of)), y: figureScale(state.b, known().map(state.b.of)) },
            plugins: { tooltip: { filter: (item, i) => i < 1, callbacks: { label: ({ raw }) => [`point ${raw.point.point}: ${describe(m, raw.point)}`,
              `${state.a.name} ${amount(raw.x, state.a.unit)}, ${state.b.name} ${amount(raw.y, state.b.unit)}`] } } },
          },
        }),
      });
      const wish = (figure) => choice(`${figure.name} is better`, [{ label: "less", value: true }, { label: "more", value: false }], state.less.get(figure),
        (value) => { state.less.set(figure, value); redraw(); });
      const redraw = () => {
        controls.replaceChildren(choice("Across", options(m.figures.filter((figure) => figure !== state.b)), state.a, (value) => { state.a = value; redraw(); }), wish(state.a),
          choice("up", options(m.figures.filter((figure) => figure !== state.a)), state.b, (value) => { state.b = value; redraw(); }), wish(state.b));
        listing.replaceChildren(heddle.legend([{ colour: "var(--modelled)", shape: "disc", text: "points" }, { colour: "var(--baseline)", shape: "disc", text: "Pareto front" }]),
          pointTable(m, front(), [state.a, state.b]));
        chart.redraw();
      };
      redraw();
    });
  }

  function sensitivity(m) {
    const figures = m.figures.filter((figure) => heddle.list(figure.effects).length);
    if (!figures.length) return;
    const state = { figure: named(figures, m.data.choice && m.data.choice.figure, figures[0]) };
    card(main, { id: "effects", title: "What moves the figures", navText: "Sensitivity",
      lead: "Main effects: for every axis, the mean of a figure over all points with a value of the axis. The bar is the part of the figure's variance that the axis explains alone; "
        + "what all bars leave is the axes' interplay." }, (box) => {
      const controls = h("div", { class: "controls" });
      const place = h("div", { class: "effects" });
      box.append(controls, place);
      const redraw = () => {
        controls.replaceChildren(choice("Figure", options(figures), state.figure, (value) => { state.figure = value; redraw(); }));
        place.replaceChildren(...state.figure.effects.map((effect) => h("div", { class: "bar-row" },
          h("div", { class: "bar-name" }, h("span", {}, m.axes[effect.axis].title), h("small", {}, m.axes[effect.axis].sets)),
          h("div", { class: "bar-line" }, h("div", { class: "track" }, h("div", { class: "bar", style: { width: `${effect.share_percent}%`, background: "var(--modelled)" } })),
            h("span", { class: "bar-value" }, heddle.percent(effect.share_percent))),
          h("div", { class: "groups" }, effect.groups.map((group) => h("span", {}, `${group.label}: `, h("b", {}, amount(group.mean, state.figure.unit, 4))))))));
      };
      redraw();
    });
  }

  function pointTable(m, points, figures) {
    const number = (title, key, text) => ({ title, number: true, key, cell: (point) => h("td", { class: "number" }, text(point)) });
    return heddle.sortable([
      number("Point", (point) => point.point, (point) => String(point.point)),
      ...m.axes.map((axis) => ({ title: axis.title, number: axis.numeric, key: axis.at, cell: (point) => h("td", { class: axis.numeric ? "number" : null }, axis.text(axis.at(point))) })),
      ...figures.map((figure) => number(figure.title, figure.of, (point) => amount(figure.of(point)))),
      { title: "Status", key: (point) => point.status, cell: (point) => h("td", { class: point.status === "done" ? "verdict good" : point.status === "not run" ? "muted" : "verdict bad" }, point.status) },
      number("Seconds", (point) => point.seconds, (point) => heddle.number(point.seconds, 3)),
    ], points);
  }

  function failures(m) {
    const bad = m.points.filter((point) => point.status !== "done" && point.status !== "not run");
    const without = m.points.filter((point) => heddle.list(point.without).length);
    if (bad.length)
      card(main, { id: "failures", title: "Points that did not go well", navText: "Failures", lead: "A point that failed has come to its end, and its figures count; those of the others do not." },
        (box) => box.append(heddle.sortable([
          { title: "Point", number: true, key: (point) => point.point, cell: (point) => h("td", { class: "number" }, String(point.point)) },
          { title: "Values", key: (point) => describe(m, point), cell: (point) => h("td", { class: "wrapped" }, describe(m, point)) },
          { title: "Status", key: (point) => point.status, cell: (point) => h("td", { class: "verdict bad" }, point.status) },
          { title: "Reason", key: (point) => point.reason, cell: (point) => h("td", { class: "wrapped" }, point.reason || "") },
          { title: "Folder", key: (point) => point.folder, cell: (point) => h("td", {}, h("code", {}, point.folder)) },
        ], bad)));
    if (without.length)
      card(main, { id: "without", title: "Points without a figure", lead: "Their runs went well, but have nothing of what the figure asks for." }, (box) => box.append(heddle.sortable([
        { title: "Point", number: true, key: (point) => point.point, cell: (point) => h("td", { class: "number" }, String(point.point)) },
        { title: "Values", key: (point) => describe(m, point), cell: (point) => h("td", { class: "wrapped" }, describe(m, point)) },
        { title: "Figure", key: (point) => point.without[0].figure, cell: (point) => h("td", { class: "wrapped" }, point.without.map((one) => `${one.figure}: ${one.why}`).join("; ")) },
      ], without)));
  }

  heddle.showPage((data) => {
    const m = model(data);
    guarded("headline", () => tiles(m));
    if (data.description) main.append(h("p", { class: "lead" }, data.description));
    guarded("figures", () => overAxis(m));
    guarded("heat map", () => heatMap(m));
    guarded("Pareto front", () => pareto(m));
    guarded("sensitivity", () => sensitivity(m));
    guarded("failures", () => failures(m));
    if (m.points.length)
      card(main, { id: "points", title: "All points", navText: "Table", lead: "Click a heading to sort. The same table is in table.csv and table.sqlite." },
        (box) => box.append(pointTable(m, m.points, m.figures)));
    if (!main.querySelectorAll(".card").length) main.append(h("p", { class: "notice" }, "This sweep has no points."));
  });
})();
