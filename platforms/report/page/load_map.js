// The load map: one row per SM, grouped by GPC, time from left to right, colour for the percentage of warp slots in use.
(() => {
  const { h } = heddle;

  // Colours that are equal steps apart to the eye: lightness is linear in OKLab, so the order survives every kind of colour
  // blindness and a grey print; the hue goes from blue to yellow. Zero is close to the page's own surface.
  function oklchToRgb(lightness, chroma, hue) {
    const a = chroma * Math.cos((hue * Math.PI) / 180);
    const b = chroma * Math.sin((hue * Math.PI) / 180);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const linear = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s, -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s];
    // A colour that the screen cannot show is made paler, so that lightness and hue stay what they should be.
    if (chroma > 0.005 && linear.some((value) => value < -0.0005 || value > 1.0005)) return oklchToRgb(lightness, chroma - 0.004, hue);
    return linear.map((value) => Math.round(255 * heddle.clamp(value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055, 0, 1)));
  }
  heddle.loadColours = function (dark) {
    const [light0, light1] = dark ? [0.24, 0.93] : [0.97, 0.3];
    const [hue0, hue1] = dark ? [275, 105] : [110, 275];
    return Array.from({ length: 101 }, (_, i) => {
      const t = i / 100;
      const chroma = (dark ? 0.035 : 0.02) + 0.1 * Math.sin(Math.PI * Math.min(1, 0.12 + 0.76 * t) ** 0.9);
      return oklchToRgb(light0 + (light1 - light0) * t, chroma * (i === 0 ? 0.15 : 1), hue0 + (hue1 - hue0) * t);
    });
  };

  // Rows of one GPC next to each other: [{name, first, count}].
  function groupsOf(sms) {
    const groups = [];
    sms.forEach((path, i) => {
      const name = String(path).split(".")[0];
      if (!groups.length || groups[groups.length - 1].name !== name) groups.push({ name, first: i, count: 0 });
      ++groups[groups.length - 1].count;
    });
    return groups;
  }

  // The scale of the colours between two texts.
  heddle.scaleLegend = function ([low, high]) {
    const canvas = h("canvas", { width: 101, height: 1, "aria-hidden": "true" });
    heddle.plot(() => {
      const context = canvas.getContext("2d");
      heddle.loadColours(heddle.isDark()).forEach(([r, g, b], i) => {
        context.fillStyle = `rgb(${r},${g},${b})`;
        context.fillRect(i, 0, 1, 1);
      });
    });
    return h("div", { class: "scale" }, h("span", {}, low), canvas, h("span", {}, high));
  };

  heddle.loadMap = function (holder, map, view) {
    const rows = heddle.list(map.percent).map(heddle.list);
    const sms = rows.map((_, i) => heddle.list(map.sms)[i] || `SM ${i}`);
    const bins = Math.max(1, ...rows.map((row) => row.length));
    const groups = groupsOf(sms);
    const gap = groups.length > 1 ? 3 : 0;
    const rowHeight = heddle.clamp(Math.floor(520 / sms.length), 2, 22);
    const height = sms.length * rowHeight + (groups.length - 1) * gap;
    const top = 6;
    const canvas = h("canvas", { role: "img", "aria-label": `Load of ${sms.length} SMs over time` });
    const image = h("canvas", { width: bins, height: sms.length });
    holder.prepend(canvas);
    holder.before(heddle.scaleLegend(["0 % (idle)", "100 % of warp slots"]));
    const topOf = (group) => top + group.first * rowHeight + groups.indexOf(group) * gap;
    const area = () => {
      const { left, right } = heddle.timeMargins(holder.clientWidth);
      return { left, right: Math.max(left + 50, holder.clientWidth - right), top, bottom: top + height };
    };

    function paintImage() {
      const colours = heddle.loadColours(heddle.isDark());
      const context = image.getContext("2d");
      const pixels = context.createImageData(bins, sms.length);
      rows.forEach((row, y) => {
        for (let x = 0; x < bins; ++x) {
          if (!heddle.isNumber(row[x])) continue;
          const colour = colours[heddle.clamp(Math.round(row[x]), 0, 100)];
          pixels.data.set([...colour, 255], 4 * (y * bins + x));
        }
      });
      context.putImageData(pixels, 0, 0);
    }
    function draw() {
      const place = area();
      const context = heddle.sizeCanvas(canvas, Math.max(120, holder.clientWidth), place.bottom + heddle.timeAxisHeight);
      const [first, count] = [view.from / map.bin_us, view.span / map.bin_us];
      const scale = (place.right - place.left) / count;
      const from = heddle.clamp(Math.floor(first), 0, bins);
      const to = heddle.clamp(Math.ceil(first + count), from, bins);
      context.fillStyle = heddle.colour("muted");
      context.font = heddle.font();
      context.textAlign = "right";
      context.textBaseline = "middle";
      for (const group of groups) {
        const rowsHeight = group.count * rowHeight;
        if (rowsHeight >= 11) context.fillText(group.name, place.left - 10, topOf(group) + rowsHeight / 2);
        context.fillRect(place.left - 5, topOf(group), 1, rowsHeight);
      }
      context.save();
      context.beginPath();
      context.rect(place.left, top, place.right - place.left, height);
      context.clip();
      context.imageSmoothingEnabled = scale < 1;
      for (const group of groups)
        if (to > from)
          context.drawImage(image, from, group.first, to - from, group.count, place.left + (from - first) * scale, topOf(group),
            (to - from) * scale, group.count * rowHeight);
      context.restore();
      heddle.drawTimeAxis(context, view, place);
    }
    heddle.plot(() => { paintImage(); draw(); });
    view.onChange(draw);
    heddle.onResize(holder, draw);

    const rowAt = (y) => {
      const group = groups.find((candidate) => y >= topOf(candidate) && y < topOf(candidate) + candidate.count * rowHeight);
      return group ? group.first + Math.floor((y - topOf(group)) / rowHeight) : -1;
    };
    heddle.timeGestures(holder, view, area, {
      hover(x, y, event) {
        const place = area();
        const row = rowAt(y);
        const bin = Math.floor((view.from + ((x - place.left) / (place.right - place.left)) * view.span) / map.bin_us);
        if (row < 0 || x < place.left || x > place.right || bin < 0 || bin >= bins) return heddle.tooltip.hide();
        heddle.tooltip.show(event.clientX, event.clientY, [sms[row],
          ["Time", `${heddle.time(bin * map.bin_us, 4)} to ${heddle.time((bin + 1) * map.bin_us, 4)}`],
          ["Warp slots in use", heddle.isNumber(rows[row][bin]) ? heddle.percent(rows[row][bin]) : "not known"]]);
      },
      leave: heddle.tooltip.hide,
    });

    // How evenly the work is spread, in words.
    const means = rows.map((row) => heddle.sum(row.filter(heddle.isNumber)) / Math.max(1, row.length));
    const [least, most] = [means.indexOf(Math.min(...means)), means.indexOf(Math.max(...means))];
    return `Over the whole run the ${sms.length} SMs are loaded ${heddle.percent(heddle.sum(means) / means.length)} on average; least `
      + `${heddle.percent(means[least])} (${sms[least]}), most ${heddle.percent(means[most])} (${sms[most]}).`;
  };
})();
