// Puts the page together from the data. A part without data is left out; a part that fails says so and leaves the others be.
(() => {
  const { h } = heddle;
  const palette = 8;
  const main = document.getElementById("main");
  const nav = document.getElementById("nav");
  const { card, holder, cells, table, headline, guarded } = heddle;

  function notices(data) {
    const expectations = heddle.list(data.expectations);
    const failed = expectations.filter((expectation) => !expectation.ok);
    const warnings = heddle.list(data.warnings);
    const unexpected = heddle.list(data.gpus).flatMap((gpu, index) => heddle.list(gpu && gpu.faults).filter((fault) => !fault.expected)
      .map((fault) => ({ fault, index })));
    const stopped = data.stopped;
    if (stopped) {
      main.append(h("div", { class: `notice ${stopped.expected ? "warn" : "bad"}`, role: "alert", id: "stopped" },
        h("strong", {}, `${stopped.what}${stopped.expected ? ", as the scenario expects" : ""}: `), `${stopped.how}. All figures are those up to then.`,
        heddle.list(stopped.waits).length ? h("ul", {}, stopped.waits.map((wait) => h("li", {}, wait))) : null));
      nav.append(h("a", { href: "#stopped", class: "strong" }, stopped.what));
    }
    if (unexpected.length)
      main.append(h("div", { class: "notice bad", role: "alert" },
        h("strong", {}, `${heddle.count(unexpected.length, "fault")} that the scenario does not expect`),
        ` in ${[...new Set(unexpected.map(({ fault }) => fault.kernel))].join(", ")}: `,
        h("a", { href: `#gpu-${unexpected[0].index}-faults` }, "what, where and when")));
    if (failed.length)
      main.append(h("div", { class: "notice bad", role: "alert", id: "failed" },
        h("strong", {}, `${failed.length} of ${heddle.count(expectations.length, "expectation")} failed`),
        h("ul", {}, failed.map((expectation) => h("li", {}, expectation.text,
          expectation.actual !== undefined ? [" (actual: ", h("b", {}, expectation.actual), ")"] : null)))));
    if (failed.length) nav.append(h("a", { href: "#failed", class: "strong" }, "Failed expectations"));
    if (warnings.length) nav.append(h("a", { href: "#warnings" }, "Warnings"));
    if (warnings.length)
      main.append(h("div", { class: "notice warn", id: "warnings" }, h("strong", {}, heddle.count(warnings.length, "warning")),
        h("ul", {}, warnings.map((warning) => h("li", {}, warning)))));
  }

  function howToRead() {
    const term = (text) => h("b", {}, text);
    main.append(h("section", { class: "card intro", id: "how-to-read" }, h("h2", {}, "How to read this page"), h("p", {},
      "A GPU consists of many ", term("SMs"), " (streaming multiprocessors, the cores that compute), arranged in groups called ", term("GPCs"),
      ". A program gives it ", term("kernels"), ": functions that run as a grid of ", term("CTAs"),
      " (cooperative thread arrays, also called thread blocks), each of which runs on one SM as a number of ", term("warps"),
      " of 32 threads (on GPUs of AMD mostly 64). The ", term("front end"), " is the part of the GPU that takes kernels from the program's ", term("streams"),
      " (queues that are worked off in order) and decides which CTA runs on which SM, and when. Heddle models this part; of kernels that have a ",
      "program, also what their warps do, down to the bytes in memory. ",
      term("Occupancy"), " is the share of the SMs' places for warps that are in use: 100 % means that no more warps fit, 0 % that the GPU waits. ",
      term("Modelled"), " is what Heddle computed, ", term("recorded"), " what was measured on a real GPU, where there is a recording.")));
  }

  function comparisonBars(rows) {
    const longest = Math.max(...rows.flatMap((row) => row.bars.map((bar) => bar.us || 0)), 1e-9);
    return h("div", { class: "bars" }, rows.map((row) => h("div", { class: "bar-row" },
      h(row.pick ? "button" : "div", { class: "bar-name", type: row.pick ? "button" : null, title: row.title, onclick: row.pick },
        row.colour ? h("i", { class: "square", style: { color: row.colour } }) : null, row.pick ? heddle.clipped(row.name) : h("span", {}, row.name),
        row.note ? h("small", {}, row.note) : null),
      row.bars.filter((bar) => heddle.isNumber(bar.us)).map((bar) => h("div", { class: "bar-line" },
        h("div", { class: "track" }, h("div", { class: "bar", style: { width: `${(100 * bar.us) / longest}%`, background: bar.colour } })),
        h("span", { class: "bar-value" }, bar.text, bar.extra ? h("small", {}, ` ${bar.extra}`) : null))))));
  }

  function spans(parent, gpu) {
    const list = heddle.list(gpu.spans).filter((span) => heddle.isNumber(span.us));
    if (!list.length) return;
    card(parent, { title: "End to end", wide: false, lead: "From the start of the first operation, copies included, to the end of the last one." }, (box) => {
      box.append(comparisonBars(list.map((span, i) => ({ name: span.label, bars: [{ us: span.us, text: heddle.time(span.us, 4),
        colour: /record/i.test(span.label) && i === 0 ? "var(--recorded)" : i === 1 || list.length === 1 ? "var(--modelled)" : "var(--second)",
        extra: i > 0 && list[0].us > 0 ? heddle.deviation(100 * (span.us / list[0].us - 1)) : "" }] }))));
    });
  }

  // Total duration by kernel name, largest first.
  function byName(kernels) {
    const groups = new Map();
    for (const kernel of kernels) {
      const name = kernel.name || "";
      if (!groups.has(name)) groups.set(name, { name, count: 0, us: 0, recorded: 0, recordings: 0, baseline: 0, baselines: 0 });
      const group = groups.get(name);
      ++group.count;
      group.us += kernel.us || 0;
      if (heddle.isNumber(kernel.recorded_us)) { group.recorded += kernel.recorded_us; ++group.recordings; }
      if (heddle.isNumber(kernel.baseline_us)) { group.baseline += kernel.baseline_us; ++group.baselines; }
    }
    return [...groups.values()].sort((a, b) => b.us - a.us || (a.name < b.name ? -1 : 1));
  }

  function kernelsByTime(parent, id, groups, shortNames, colourOf, pick, navText) {
    const top = groups.slice(0, 12);
    const total = heddle.sum(groups.map((group) => group.us)) || 1;
    const recorded = groups.some((group) => group.recordings);
    const baseline = groups.some((group) => group.baselines);
    const rest = groups.slice(12);
    card(parent, { id, title: "Kernels by time", navText,
      lead: `Total duration over the run${rest.length ? `: the ${top.length} longest of ${groups.length} kernels by name` : ""}. `
        + "Hover over a name to see it in full, click it to list its launches." }, (box) => {
      box.append(heddle.legend([{ colour: "var(--modelled)", text: "modelled" }, recorded && { colour: "var(--recorded)", text: "recorded" },
        baseline && { colour: "var(--baseline)", text: "baseline" }].filter(Boolean)));
      const rows = top.map((group) => ({
        name: shortNames.get(group.name) || "(no name)", title: group.name, colour: `var(--${colourOf(group.name)})`, pick: () => pick(group.name),
        note: `${heddle.count(group.count, "launch").replace(/hs$/, "hes")}, ${heddle.percent((100 * group.us) / total)}`,
        bars: [{ us: group.us, text: heddle.time(group.us), colour: "var(--modelled)",
          extra: group.recordings === group.count && group.recorded > 0 ? heddle.deviation(100 * (group.us / group.recorded - 1)) : "" },
        { us: group.recordings ? group.recorded : null, text: heddle.time(group.recorded), colour: "var(--recorded)",
          extra: group.recordings && group.recordings < group.count ? `${group.recordings} of ${group.count}` : "" },
        { us: group.baselines ? group.baseline : null, text: heddle.time(group.baseline), colour: "var(--baseline)" }],
      }));
      box.append(comparisonBars(rows));
      if (rest.length) {
        const left = heddle.sum(rest.map((group) => group.us));
        box.append(h("p", { class: "after" }, `The other ${rest.length} names take ${heddle.time(left)} together (${heddle.percent((100 * left) / total)}).`));
      }
    });
  }

  function describe(gpu) {
    const shape = heddle.list(gpu.gpcs);
    return [gpu.device, gpu.preset && `model ${gpu.preset}`,
      heddle.isNumber(gpu.sms) && (shape.length ? `${gpu.sms} SMs in ${shape.length} GPCs (${shape.join(" ")})` : `${gpu.sms} SMs`),
      heddle.isNumber(gpu.clock_ghz) && `${heddle.number(gpu.clock_ghz, 4)} GHz`,
      gpu.timing && `timing ${gpu.timing}`,
      gpu.pace === "recorded" ? "work submitted at the recorded times" : gpu.pace === "asap" ? "work submitted as early as possible" :
        gpu.pace === "host" ? "work submitted at the recorded times of the host's calls" : null]
      .filter(Boolean).join(" \u00b7 ");
  }

  function endOfTime(gpu) {
    let end = 0;
    const occupancy = gpu.occupancy || {};
    const map = gpu.load_map || {};
    end = Math.max(end, Math.max(heddle.list(occupancy.warps_percent).length, heddle.list(occupancy.sms_busy_percent).length) * (occupancy.bin_us || 0));
    for (const row of heddle.list(map.percent)) end = Math.max(end, heddle.list(row).length * (map.bin_us || 0));
    for (const item of [...heddle.list(gpu.kernels), ...heddle.list(gpu.copies)]) {
      end = Math.max(end, (item.start_us || 0) + (item.us || 0));
      if (heddle.isNumber(item.recorded_start_us)) end = Math.max(end, item.recorded_start_us + (item.recorded_us || 0));
    }
    return end;
  }

  function startOfTime(gpu) {
    let start = 0;
    for (const kernel of heddle.list(gpu.kernels)) start = Math.min(start, kernel.start_us || 0, kernel.recorded_start_us || 0);
    return start;
  }

  const kMostFaults = 100;

  function faults(parent, key, gpu, navText) {
    const list = heddle.list(gpu.faults);
    if (!list.length) return;
    const shown = [...list.filter((fault) => !fault.expected), ...list.filter((fault) => fault.expected)].slice(0, kMostFaults);
    card(parent, { id: `${key}-faults`, title: "Faults", navText,
      lead: "Operations that the device could not carry out. A fault ends its kernel; the others go on." }, (box) => {
      box.append(heddle.faultTable(shown, table));
      if (list.length > shown.length) box.append(h("p", { class: "after" }, `${list.length - shown.length} more are in stats.json.`));
    });
  }

  function memory(parent, key, gpu, navText) {
    const data = gpu.memory;
    if (!data) return;
    const levels = heddle.list(data.levels);
    const warps = heddle.list(data.warp_time);
    const instructions = heddle.list(data.instructions);
    card(parent, { id: `${key}-memory`, title: "Memory", navText,
      lead: data.us > 0 ? `What programs moved, beside what this machine could move in the ${heddle.time(data.us)} in which they ran.`
        : "What programs moved. None of their kernels has ended, so that there is no time to compare it with." }, (box) => {
      if (levels.length) box.append(heddle.memoryLevels(levels, table));
      if (heddle.list(data.counts).length) box.append(h("div", { class: "more" }, heddle.memoryCounts(data.counts, table)));
    });
    const bars = (rows) => comparisonBars(rows.map((row) => ({ name: row.name, bars: [{ us: row.value, text: row.text, extra: row.extra, colour: row.colour }] })));
    if (warps.length)
      card(parent, { title: "How warps spent their time", wide: !instructions.length,
        lead: "Of the time of all warps that were on an SM." }, (box) => box.append(bars(warps.map((row) => (
        { name: row.label, value: row.cycles, text: heddle.percent(row.share_percent), colour: "var(--modelled)" })))));
    const all = heddle.sum(instructions.map((row) => row.count));
    if (instructions.length)
      card(parent, { title: "Instructions by unit", wide: !warps.length, lead: `${heddle.number(all, 12)} warp instructions.` }, (box) =>
        box.append(bars(instructions.map((row) => ({ name: row.label, value: row.count, text: heddle.number(row.count, 12),
          extra: heddle.percent((100 * row.count) / all), colour: "var(--second)" })))));
  }

  // What a recorded program calls its own parts.
  function ranges(parent, key, gpu, navText) {
    const data = gpu.ranges;
    if (!data) return;
    const rows = heddle.list(data.rows);
    const other = rows.some((row) => row.baseline_us != null);
    const against = (row) => (other ? row.baseline_us : row.recorded_us);
    card(parent, { id: `${key}-ranges`, title: "Named ranges", navText, wide: true,
      lead: "Parts that the recorded program named itself (NVTX, record_function), with what their thread launched in them (a backward pass is another thread's): from the start of the first operation to the "
        + `end of the last, summed over all times. ${other ? "The recorded machine is as modelled." : "Durations of kernels are fitted to the recording."}` }, (box) => {
      box.append(table(["Range", "Times", "Kernels", "Recorded", ...(other ? ["Recorded machine"] : []), "This run", "Ratio"], rows.map((row) => h("tr", {},
        h("th", { scope: "row", title: row.name, style: { paddingLeft: `${0.6 + row.depth}em` } }, heddle.clipped(row.name)),
        cells([heddle.number(row.times, 9), heddle.number(row.kernels, 9), heddle.time(row.recorded_us), ...(other ? [heddle.time(row.baseline_us)] : []),
          heddle.time(row.us), against(row) > 0 ? `${(row.us / against(row)).toFixed(3)} x` : ""], [0, 1, 2, 3, 4, 5]))), other ? [1, 2, 3, 4, 5, 6] : [1, 2, 3, 4, 5]));
      if (data.left_out > 0) box.append(h("p", { class: "after" }, `${data.left_out} more are in ranges.csv.`));
    });
  }

  function kernelUse(parent, key, gpu, { shortNames, colourOf, navText }) {
    const data = gpu.kernel_use;
    if (!data || !heddle.list(data.rows).length) return;
    const counted = data.rows.some((row) => row.instructions > 0 || row.l2_bytes > 0 || row.operations > 0);
    if (!counted) return;
    card(parent, { id: `${key}-limits`, title: "What limits each kernel", navText, wide: true,
      lead: "What a kernel used of each resource while it ran, of what it could have used then. From "
        + `${heddle.number(data.threshold_percent)} % on, the busiest resource limits it, or the one that it uses most if all kernels together fill that. Below, it is launch and grid if its `
        + "CTAs held less than that of the places that they could have and nobody else did, and else latency: warps wait for what takes its time, and nothing is full." }, (box) => {
      box.append(heddle.limitTable(data, shortNames, table));
      if (data.left_out > 0) box.append(h("p", { class: "after" }, `${heddle.count(data.left_out, "more kernel")} by name: kernels.csv has all launches.`));
      box.append(heddle.nobodysBytes(data.nobody));
    });
    const drawable = data.rows.some((row) => (row.operations > 0 || row.instructions > 0) && (row.l2_bytes > 0 || row.dram_bytes > 0));
    if (drawable)
      card(parent, { id: `${key}-roofline`, title: "Roofline", wide: true,
        lead: "One mark per kernel, larger the more time its launches take; both axes are logarithmic. Nothing can lie above the line: on its slope bytes "
          + "limit, on the flat part work. Tensor operations count as if of f16: those of another type as many as take the tensor cores as long." }, (box) => heddle.roofline(box, data, { shortNames, colourOf, holder }));
    if (heddle.list(data.programs).length)
      card(parent, { id: `${key}-stalls`, title: "Where warps waited", wide: true,
        lead: "The steps of programs at which warps waited most, those of the programs first that waited longest; stalls.csv has all." }, (box) =>
        box.append(...heddle.stallTables(data, shortNames, table)));
  }

  function idle(parent, key, gpu, shortNames, navText) {
    const data = gpu.idle;
    if (!data) return;
    card(parent, { id: `${key}-idle`, title: "Why SMs were idle", navText, wide: true,
      lead: `SMs had no CTA in ${heddle.percent(data.idle_percent)} of the time of all SMs, up to the end of the run. Each SM has one reason at a time, so that the `
        + "shares add up: what is known of the SM itself, else what the next task waits for, else what keeps the next task from coming." }, (box) => {
      box.append(heddle.idleReasons(data, table));
      if (heddle.list(data.kernels).length) {
        box.append(h("h4", {}, "By kernel"), h("p", { class: "lead" }, "What kept SMs idle in front of a kernel's CTAs, between them, and until their end."),
          heddle.idleKernels(data, shortNames, table));
      }
      if (data.left_out > 0) box.append(h("p", { class: "after" }, `${data.left_out} more are in stats.json.`));
    });
  }

  function power(parent, key, gpu, navText) {
    const data = gpu.power;
    if (!data) return;
    card(parent, { id: `${key}-power`, title: "Power", navText, wide: true,
      lead: `An estimate, from what the blocks did and a cost for each event: ${heddle.watts(data.watts)} on average, ${heddle.joules(data.joules)} in all, `
        + `at a mean clock of ${heddle.number(data.clock_ghz, 4)} GHz.` }, (box) => {
      if (data.series) heddle.powerPlot(holder(box, "power"), data.series);
      box.append(comparisonBars(heddle.powerRows(data)));
    });
  }

  function bulk(parent, key, gpu, navText) {
    const data = gpu.bulk;
    if (!data) return;
    const tensors = heddle.list(data.tensors);
    const shares = heddle.list(data.shares);
    card(parent, { id: `${key}-bulk`, title: "Tensor memory access", navText, wide: true,
      lead: "Requests to the tensor memory access units. Times are cycles from a request's arrival in its unit to its end; "
        + "what memory fetched for it is whole sectors of 32 bytes, of which rows of a box may use less." }, (box) => {
      box.append(heddle.bulkKinds(heddle.list(data.kinds), table));
      if (tensors.length) box.append(h("h4", {}, "By tensor"), heddle.bulkTensors(tensors, table));
      if (data.left_out > 0) box.append(h("p", { class: "after" }, `${data.left_out} more rows are in stats.json.`));
      const units = data.units || {};
      if (heddle.list(units.rows).length) {
        box.append(h("h4", {}, "By unit, in cycles of the unit"), heddle.bulkUnits(units.rows, table));
        if (units.left_out > 0) box.append(h("p", { class: "after" }, `${heddle.count(units.left_out, "more unit")} with fewer bytes.`));
      }
      if (shares.length) box.append(h("h4", {}, "What they took of the machine"), heddle.busiest(shares), heddle.bulkShares(shares, table));
    });
  }

  function processes(parent, key, gpu, navText) {
    const rows = gpu.processes ? heddle.list(gpu.processes.rows) : [];
    if (!rows.length) return;
    const fairness = gpu.processes.fairness;
    card(parent, { id: `${key}-processes`, title: "Processes", navText, wide: true,
      lead: "Subcontexts that shared the machine: what each took, what it waited for, and whose bytes moved." }, (box) => {
      box.append(heddle.processTable(rows.filter((row) => row.shared), table));
      if (heddle.isNumber(fairness)) box.append(heddle.fairness(fairness));
      const waits = rows.filter((row) => heddle.list(row.waits).length || row.waiting > 0);
      if (waits.length) box.append(h("h4", {}, "What their tasks waited for"), heddle.processWaits(waits, table));
      box.append(h("h4", {}, "Whose bytes moved"), heddle.processBytes(rows, table));
    });
  }

  function packets(parent, key, gpu, shortNames, navText) {
    const data = gpu.packets;
    if (!data || !heddle.list(data.rows).length) return;
    card(parent, { id: `${key}-packets`, title: "Where the time of a kernel goes", navText,
      lead: "From the host's writing of a packet to the end of its clean-up. Time in which an earlier kernel of the same queue was still on its way "
        + "counts for that one alone, so that the parts add up to the time of the queue; what a condensed packet takes as a whole counts for its first kernel." },
    (box) => heddle.packetParts(box, data, { shortNames, table }));
  }

  const kMostLaunched = 100;

  function launched(parent, key, gpu, navText) {
    const rows = heddle.list(gpu.launched);
    if (!rows.length) return;
    card(parent, { id: `${key}-launched`, title: "Kernels launched by programs", navText, wide: true,
      lead: "By name, launching kernel and depth. Means of the tasks that have ended: Wait is from the launch to the first launch packet, CTAs from there to the "
        + "end of the last CTA, Descendants from there until all that the task launched had completed. A false dependency is a task that waited for one of "
        + "another stream, because both shared a queue (TMDQ); saved CTAs gave up their places while they waited." }, (box) => {
      box.append(heddle.launchedTable(rows.slice(0, kMostLaunched), table));
      if (rows.length > kMostLaunched) box.append(h("p", { class: "after" }, `${rows.length - kMostLaunched} more rows are in stats.json.`));
    });
  }

  // Of many launches the names stand apart.
  function namesOfIndices(gpu) {
    const names = heddle.list(gpu.names);
    for (const item of [...heddle.list(gpu.kernels), ...heddle.list(gpu.copies)]) if (heddle.isNumber(item.name)) item.name = names[item.name];
  }

  function gpuSection(gpu, index, several) {
    const key = `gpu-${index}`;
    const name = gpu.name || `gpu${index}`;
    namesOfIndices(gpu);
    const section = h("section", { class: "gpu", id: key }, h("h2", {}, name), h("p", { class: "device" }, describe(gpu)));
    main.append(section);
    if (several) nav.append(h("a", { href: `#${key}`, class: "strong" }, name));
    const link = (text) => (several ? null : text);
    const kernels = heddle.list(gpu.kernels);
    const totals = heddle.list(gpu.kernel_totals);
    const shortNames = heddle.shortNames([...kernels, ...totals, ...heddle.list(gpu.copies)].map((item) => item.name || ""));
    const groups = totals.length ? totals.slice().sort((a, b) => b.us - a.us || (a.name < b.name ? -1 : 1)) : byName(kernels);
    const colours = new Map(groups.slice(0, palette).map((group, i) => [group.name, `k${i}`]));
    const colourOf = (kernelName) => colours.get(kernelName || "") || "other";
    let listing = null;
    const pick = (kernelName) => { if (listing) listing.filter(kernelName || ""); };

    const grid = h("div", { class: "grid" });
    section.append(grid);
    spans(grid, gpu);
    const unmatched = heddle.list(gpu.unmatched);
    if (unmatched.length)
      card(grid, { title: "Not reproduced", wide: false, lead: "Kernels whose modelled duration is more than 5 % from the recorded one, and why." }, (box) => {
        box.append(table(["Reason", "Kernels", "Time", "Share of time"], unmatched.map((row) => h("tr", {},
          cells([row.reason, heddle.number(row.kernels, 9), heddle.time(row.time_us)], [1, 2]),
          h("td", { class: "share" }, h("i", { style: { width: `${heddle.clamp(row.share_percent || 0, 0, 100) * 0.6}%` } }), heddle.percent(row.share_percent)))), [1, 2]));
      });

    faults(grid, key, gpu, link("Faults"));

    const end = endOfTime(gpu);
    const occupancy = gpu.occupancy;
    const map = gpu.load_map;
    const hasOccupancy = occupancy && occupancy.bin_us > 0 && (heddle.list(occupancy.warps_percent).length || heddle.list(occupancy.sms_busy_percent).length);
    const hasMap = map && map.bin_us > 0 && heddle.list(map.percent).length;
    const hasBars = kernels.length || heddle.list(gpu.copies).length;
    if (end > 0 && (hasOccupancy || hasMap || hasBars)) {
      const view = new heddle.TimeView(startOfTime(gpu), end);
      const group = h("div", { class: "time-group" }, heddle.timeToolbar(view));
      section.append(group);
      if (hasOccupancy)
        card(group, { id: `${key}-occupancy`, title: "Occupancy over time", navText: link("Occupancy"),
          lead: `How full the GPU is; one value per ${heddle.time(occupancy.bin_us)}.` },
        (box) => heddle.occupancyPlot(holder(box, "occupancy"), occupancy, view));
      if (hasMap)
        card(group, { id: `${key}-load`, title: "Load of the SMs over time", navText: link("SM load"),
          lead: `One row per SM, grouped by GPC; one column per ${heddle.time(map.bin_us)}. Where a column has one colour from top to bottom, the work is spread evenly.` },
        (box) => {
          const text = heddle.loadMap(holder(box, "load-map"), map, view);
          box.append(h("p", { class: "after" }, text));
        });
      if (hasBars)
        card(group, { id: `${key}-timeline`, title: "Kernels by stream", navText: link("Timeline") }, (box) => {
          const top = groups.slice(0, palette).map((entry) => ({ colour: `var(--${colourOf(entry.name)})`, title: entry.name,
            clip: true,
            text: shortNames.get(entry.name) || "(no name)" }));
          const legendPlace = h("div");
          const lead = h("p", { class: "lead" });
          box.append(lead, legendPlace);
          const { hasRecorded, hasCopies } = heddle.timeline(holder(box, "timeline"), gpu, view, { shortNames, colourOf, onPick: pick });
          lead.textContent = `${hasRecorded ? "Per stream, the modelled kernels above, the recorded ones in paler colours below" : "The modelled kernels of each stream"}. `
            + "Hover for details, click to list a kernel's launches.";
          legendPlace.replaceWith(heddle.legend([...top, groups.length > palette && { colour: "var(--other)", text: "other kernels" },
            hasCopies && { colour: "var(--copy)", text: "copies" }].filter(Boolean)));
          legendPlace.remove();
        });
    }

    const below = h("div", { class: "grid" });
    section.append(below);
    if (gpu.clusters) heddle.clusterCards(below, key, gpu.clusters, { card, holder, table, shortNames, navText: link("Clusters") });
    ranges(below, key, gpu, link("Ranges"));
    idle(below, key, gpu, shortNames, link("Idle SMs"));
    kernelUse(below, key, gpu, { shortNames, colourOf, navText: link("Limits") });
    memory(below, key, gpu, link("Memory"));
    processes(below, key, gpu, link("Processes"));
    bulk(below, key, gpu, link("Tensors"));
    power(below, key, gpu, link("Power"));
    const lower = h("div", { class: "grid" });
    section.append(lower);
    packets(lower, key, gpu, shortNames, link("Packets"));
    if (groups.length) kernelsByTime(lower, `${key}-by-time`, groups, shortNames, colourOf, pick, link("Kernels by time"));
    const comparable = kernels.some((kernel) => kernel.recorded_us > 0 && kernel.us > 0);
    const latency = gpu.launch_latency;
    if (comparable)
      card(lower, { id: `${key}-scatter`, title: "Recorded against modelled duration", wide: !latency, navText: link("Recorded / modelled") }, (box) => {
        const lead = h("p", { class: "lead" });
        box.append(lead);
        const { compared, within } = heddle.scatterPlot(holder(box, "scatter"), kernels, shortNames);
        lead.textContent = `One mark per kernel launch, both axes logarithmic; on the dashed line both are equal. ${heddle.number(within, 9)} of `
          + `${heddle.number(compared, 9)} (${heddle.percent((100 * within) / compared)}) are within 5 %.`;
      });
    if (latency && heddle.list(latency.counts).length && heddle.list(latency.edges).length)
      card(lower, { id: `${key}-latency`, title: "Launch latency", wide: !comparable, navText: link("Launch latency"),
        lead: latency.what ? `The time ${latency.what}.` : null }, (box) => heddle.latencyPlot(holder(box, "latency"), latency));
    const streams = gpu.kernels_left_out > 0 || gpu.copies_left_out > 0 ? null : heddle.streamTable(gpu, table);
    if (streams)
      card(lower, { id: `${key}-streams`, title: "Streams", navText: link("Streams"),
        lead: "What each stream did. Waits are those of kernels from their submission to their first CTA; busy is the time of its operations, of that from its "
          + "first start to its last end." }, (box) => box.append(...streams));
    launched(section, key, gpu, link("Launched kernels"));
    if (kernels.length)
      card(section, { id: `${key}-kernels`, title: gpu.kernels_left_out > 0 ? "Longest launches" : "All kernels", navText: link("All kernels"),
        lead: `${gpu.kernels_left_out > 0 ? `The ${heddle.number(kernels.length, 9)} longest of ${heddle.number(kernels.length + gpu.kernels_left_out, 9)} launches; kernels.csv has all. ` : ""}`
          + "Click a heading to sort. Hover over a name to see it in full." }, (box) => {
        listing = heddle.kernelTable(kernels, shortNames);
        box.append(listing.element);
      });
  }

  function runSection(data) {
    const summary = heddle.list(data.summary);
    const parameters = heddle.list(data.parameters);
    const expectations = heddle.list(data.expectations);
    if (!summary.length && !parameters.length && !expectations.length) return;
    const section = h("section", { class: "gpu", id: "run" }, h("h2", {}, "The run"));
    const grid = h("div", { class: "grid" });
    section.append(grid);
    main.append(section);
    const both = summary.length > 0 && expectations.length > 0;
    if (summary.length)
      card(grid, { id: "summary", title: "Summary", wide: !both, navText: "Summary" }, (box) => box.append(h("div", { class: "scroll" },
        h("table", { class: "pairs" }, h("tbody", {}, summary.map((row) =>
          h("tr", {}, h("th", { scope: "row" }, row.label), h("td", { class: "strong" }, row.value), h("td", { class: "muted" }, row.note || ""))))))));
    if (expectations.length)
      card(grid, { id: "expectations", title: "Expectations", wide: !both, navText: "Expectations" }, (box) => {
        box.append(table(["Result", "Expectation", "Actual"], expectations.map((row) => h("tr", {},
          h("td", { class: row.ok ? "verdict good" : "verdict bad" }, row.ok ? "\u2713 met" : "\u2717 failed"), cells([row.text, row.actual ?? ""])))));
      });
    if (parameters.length)
      card(grid, { id: "parameters", title: "Parameters that differ from their defaults", navText: "Parameters" }, (box) => {
        box.append(table(["Parameter", "Value", "Set by", "Source of the default"], parameters.map((row) => h("tr", {},
          h("td", {}, h("code", {}, row.path)), h("td", { class: "strong" }, row.value, row.unit ? ` ${row.unit}` : ""), cells([row.origin || "", row.source || ""])))));
      });
  }

  heddle.showPage((data) => {
    guarded("headline", () => headline(data));
    guarded("notices", () => notices(data));
    howToRead();
    const gpus = heddle.list(data.gpus);
    gpus.forEach((gpu, i) => guarded(`GPU ${i}`, () => gpuSection(gpu, i, gpus.length > 1)));
    guarded("run", () => runSection(data));
    if (main.querySelectorAll(".card").length === 1)
      main.append(h("p", { class: "notice", style: { marginTop: "16px" } }, "There is nothing to plot: this report holds no results."));
  });
})();
