// Kernels by stream over time: the modelled ones above, the recorded ones below, same colour for the same kernel.
(() => {
  const { h } = heddle;

  heddle.timeline = function (holder, gpu, view, { shortNames, colourOf, onPick }) {
    const kernels = heddle.list(gpu.kernels);
    const copies = heddle.list(gpu.copies);
    const hasRecorded = kernels.some((kernel) => heddle.isNumber(kernel.recorded_start_us) && heddle.isNumber(kernel.recorded_us));
    const streams = [...new Set([...kernels, ...copies].map((item) => String(item.stream ?? "")))]
      .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const [tall, low] = streams.length > 16 ? [9, 6] : streams.length > 8 ? [14, 10] : streams.length > 2 ? [24, 18] : [36, 28];
    const rowGap = hasRecorded ? 3 : 0;
    const laneHeight = tall + (hasRecorded ? low + rowGap : 0) + (streams.length > 16 ? 5 : 12);
    const top = 6;
    const bottom = top + streams.length * laneHeight;

    // One bar per thing to draw, by row; rows are drawn in order of time.
    const rows = [];
    const rowOf = new Map();
    streams.forEach((stream, i) => {
      const y = top + i * laneHeight + (streams.length > 16 ? 2 : 6);
      const modelled = { stream, kind: "modelled", y, height: tall, bars: [] };
      const recorded = { stream, kind: "recorded", y: y + tall + rowGap, height: low, bars: [] };
      rowOf.set(stream, [modelled, recorded]);
      rows.push(modelled);
      if (hasRecorded) rows.push(recorded);
    });
    for (const kernel of kernels) {
      const [modelled, recorded] = rowOf.get(String(kernel.stream ?? ""));
      if (heddle.isNumber(kernel.start_us) && heddle.isNumber(kernel.us))
        modelled.bars.push({ start: kernel.start_us, us: kernel.us, item: kernel });
      if (heddle.isNumber(kernel.recorded_start_us) && heddle.isNumber(kernel.recorded_us))
        recorded.bars.push({ start: kernel.recorded_start_us, us: kernel.recorded_us, item: kernel });
    }
    for (const copy of copies)
      if (heddle.isNumber(copy.start_us) && heddle.isNumber(copy.us))
        rowOf.get(String(copy.stream ?? ""))[0].bars.push({ start: copy.start_us, us: copy.us, item: copy, copy: true });
    for (const row of rows) row.bars.sort((a, b) => a.start - b.start);

    const canvas = h("canvas", { role: "img", "aria-label": `${kernels.length} kernels on ${streams.length} streams over time` });
    holder.prepend(canvas);
    let highlighted = null;
    const area = () => {
      const { left, right } = heddle.timeMargins(holder.clientWidth);
      return { left, right: Math.max(left + 50, holder.clientWidth - right), top, bottom };
    };

    function draw() {
      const place = area();
      const width = place.right - place.left;
      const context = heddle.sizeCanvas(canvas, Math.max(120, holder.clientWidth), bottom + heddle.timeAxisHeight);
      const scale = width / view.span;
      const narrow = place.left < 80;
      const [muted, grid, text, surface] = ["muted", "grid", "text", "surface"].map(heddle.colour);
      const colours = new Map();
      const colour = (bar) => {
        const name = bar.copy ? "copy" : colourOf(bar.item.name);
        if (!colours.has(name)) colours.set(name, heddle.colour(name));
        return colours.get(name);
      };
      context.font = heddle.font();
      context.textBaseline = "middle";
      context.textAlign = "right";
      streams.forEach((stream, i) => {
        const y = top + i * laneHeight;
        if (i % 2 === 0) {
          context.fillStyle = heddle.colour("stripe");
          context.fillRect(place.left, y, width, laneHeight);
        }
        context.fillStyle = muted;
        let name = narrow || !/^\d+$/.test(stream) ? stream : `stream ${stream}`;
        const room = place.left - 12;
        if (context.measureText(name).width > room) {
          while (name.length > 1 && context.measureText(`${name}\u2026`).width > room) name = name.slice(0, -1);
          name += "\u2026";
        }
        context.fillText(name, place.left - 8, y + laneHeight / 2);
      });
      context.strokeStyle = grid;
      context.strokeRect(place.left + 0.5, top + 0.5, width - 1, bottom - top - 1);

      context.save();
      context.beginPath();
      context.rect(place.left, top, width, bottom - top);
      context.clip();
      context.textAlign = "left";
      for (const row of rows) {
        context.globalAlpha = row.kind === "recorded" ? 0.55 : 1;
        for (const bar of row.bars) {
          if (bar.start > view.to) break;
          if (bar.start + bar.us < view.from) continue;
          const x = place.left + (bar.start - view.from) * scale;
          const w = Math.max(0.6, bar.us * scale - (bar.us * scale > 3 ? 0.5 : 0));
          context.fillStyle = colour(bar);
          context.fillRect(x, row.y, w, row.height);
          if (w > 44 && row.height >= 14) {
            context.save();
            context.beginPath();
            context.rect(Math.max(x, place.left), row.y, x + w - Math.max(x, place.left) - 3, row.height);
            context.clip();
            context.globalAlpha = 1;
            context.fillStyle = bar.copy ? surface : row.kind === "recorded" ? text : heddle.colour("on-kernel");
            context.font = heddle.font(11);
            context.fillText(shortNames.get(bar.item.name) || bar.item.name || "", Math.max(x, place.left) + 4, row.y + row.height / 2 + 0.5);
            context.restore();
          }
        }
      }
      context.globalAlpha = 1;
      if (highlighted) {
        context.lineWidth = 2;
        context.strokeStyle = text;
        for (const row of rows)
          for (const bar of row.bars)
            if (bar.item === highlighted) {
              const w = Math.max(2, bar.us * scale);
              context.strokeRect(place.left + (bar.start - view.from) * scale, row.y - 1, w, row.height + 2);
            }
      }
      context.restore();
      heddle.drawTimeAxis(context, view, place);
    }
    heddle.plot(draw);
    view.onChange(draw);
    heddle.onResize(holder, draw);

    // What is under the pointer, or next to it: at full zoom most kernels are narrower than a pixel.
    function find(x, y) {
      const place = area();
      const row = rows.find((candidate) => y >= candidate.y - 1 && y <= candidate.y + candidate.height + 1);
      if (!row || x < place.left || x > place.right) return null;
      const perPixel = view.span / (place.right - place.left);
      const time = view.from + (x - place.left) * perPixel;
      let best = null;
      let bestDistance = 3 * perPixel;
      for (const bar of row.bars) {
        const distance = Math.max(bar.start - time, time - bar.start - bar.us, 0);
        if (distance < bestDistance) { best = bar; bestDistance = distance; }
      }
      return best && { bar: best, row };
    }
    function highlight(item) {
      if (item === highlighted) return;
      highlighted = item;
      draw();
    }
    heddle.timeGestures(holder, view, area, {
      hover(x, y, event) {
        const found = find(x, y);
        highlight(found && found.bar.item);
        holder.style.cursor = found && !found.bar.copy ? "pointer" : "";
        if (!found) return heddle.tooltip.hide();
        const { item } = found.bar;
        heddle.tooltip.show(event.clientX, event.clientY, found.bar.copy
          ? [item.name || "Copy", ["Starts", heddle.time(item.start_us, 5)], ["Takes", heddle.time(item.us)]]
          : heddle.kernelLines(item, shortNames));
      },
      leave() { highlight(null); heddle.tooltip.hide(); },
      click(x, y) {
        const found = find(x, y);
        if (found && !found.bar.copy && onPick) onPick(found.bar.item.name);
      },
    });
    return { streams: streams.length, hasRecorded, hasCopies: copies.length > 0 };
  };

  // A kernel in the tooltip.
  heddle.kernelLines = function (kernel, shortNames) {
    const full = kernel.name || "";
    return [shortNames.get(full) || full || "Kernel",
      ["Grid, block", `${heddle.triple(kernel.grid)}, ${heddle.triple(kernel.block)}`],
      heddle.isNumber(kernel.ctas) && ["CTAs", heddle.number(kernel.ctas, 9)],
      heddle.isNumber(kernel.us) && ["Modelled", `${heddle.time(kernel.us)} from ${heddle.time(kernel.start_us, 5)}`],
      heddle.isNumber(kernel.recorded_us) && ["Recorded", `${heddle.time(kernel.recorded_us)} from ${heddle.time(kernel.recorded_start_us, 5)}`],
      kernel.recorded_us > 0 && heddle.isNumber(kernel.us) && ["Deviation", heddle.deviation(100 * (kernel.us / kernel.recorded_us - 1))],
      heddle.isNumber(kernel.wait_us) && ["Waited", heddle.time(kernel.wait_us)],
      heddle.isNumber(kernel.occupancy_percent) && ["Occupancy", heddle.percent(kernel.occupancy_percent)],
      kernel.match && ["Match", kernel.match]];
  };
})();
