"use strict";
// Elements, numbers, colours, the tooltip: what every part of the page needs.
const heddle = { errors: [], redraws: [] };

// An element. Children are elements or text, never markup: names in the data cannot become part of the page's structure.
heddle.h = function (tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(element.style, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(2))
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : String(child));
  return element;
};

heddle.list = (value) => (Array.isArray(value) ? value : []);
heddle.isNumber = (value) => typeof value === "number" && Number.isFinite(value);
heddle.sum = (values) => values.reduce((total, value) => total + value, 0);
heddle.clamp = (value, low, high) => Math.min(high, Math.max(low, value));

(() => {
  const formats = new Map();
  const format = (key, options) => {
    if (!formats.has(key)) formats.set(key, new Intl.NumberFormat("en-US", options));
    return formats.get(key);
  };
  const minus = (text) => text.replace("-", "\u2212");
  // Significant digits, but never fewer than the integer part has.
  const placesFor = (value, digits) =>
    value === 0 ? 0 : heddle.clamp(digits - 1 - Math.floor(Math.log10(Math.abs(value))), 0, 6);
  // Without trailing zeros: for numbers that are exact.
  heddle.number = (value, digits = 3) => {
    if (!heddle.isNumber(value)) return "\u2013";
    const places = placesFor(value, digits);
    return minus(format(`max${places}`, { maximumFractionDigits: places }).format(value));
  };
  heddle.fixed = (value, places) => heddle.isNumber(value)
    ? minus(format(`fix${places}`, { minimumFractionDigits: places, maximumFractionDigits: places }).format(value)) : "\u2013";
  heddle.percent = (value, digits = 3) => heddle.isNumber(value) ? `${heddle.fixed(value, Math.min(2, placesFor(value, digits)))}\u00a0%` : "\u2013";
  // A deviation: "+1.2 %".
  heddle.deviation = (value) => {
    if (!heddle.isNumber(value)) return "\u2013";
    const places = Math.abs(value) < 10 ? 2 : 1;
    return `${value > 0 ? "+" : ""}${heddle.fixed(value, places)}\u00a0%`;
  };
  const units = [["s", 1e6], ["ms", 1e3], ["\u00b5s", 1], ["ns", 1e-3]];
  heddle.timeUnit = (us) => units.find(([, size]) => Math.abs(us) >= size) || (us === 0 ? units[2] : units[3]);
  heddle.time = (us, digits = 3) => {
    if (!heddle.isNumber(us)) return "\u2013";
    const [unit, size] = heddle.timeUnit(us);
    return `${heddle.fixed(us / size, placesFor(us / size, digits))}\u00a0${unit}`;
  };
  heddle.unitName = (unit) => (unit === "us" ? "\u00b5s" : unit || "");
  heddle.triple = (value) => heddle.list(value).length ? heddle.list(value).join("\u00d7") : "\u2013";
  heddle.count = (n, what) => `${heddle.number(n, 9)} ${what}${n === 1 ? "" : "s"}`;
})();

// Ticks of a linear axis: at 1, 2 or 5 times a power of ten, at most about `wanted` of them.
heddle.niceTicks = function (from, to, wanted) {
  const span = to - from;
  if (!(span > 0)) return { ticks: [from], step: 1 };
  const raw = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; ++i) ticks.push(i * step + 0);
  return { ticks, step };
};

// A time axis over [from, to] in us: ticks, their labels, and the unit for the axis title.
heddle.timeTicks = function (from, to, pixels) {
  const { ticks, step } = heddle.niceTicks(from, to, pixels / 85);
  const [unit, size] = heddle.timeUnit(Math.max(Math.abs(from), Math.abs(to)));
  const places = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  return { ticks, unit, label: (value) => heddle.fixed(value / size, places) };
};

// Colours come from the style sheet, so that plots follow the colour scheme.
heddle.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
heddle.isDark = () => heddle.colour("scheme") === "dark";
heddle.alpha = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");

// Draws a plot now and whenever the colour scheme changes. What goes wrong in it stays in it.
heddle.plot = function (draw) {
  draw();
  heddle.redraws.push(draw);
};

heddle.fail = function (what, error) {
  heddle.errors.push(`${what}: ${error && error.message ? error.message : error}`);
  if (typeof console !== "undefined") console.error(what, error);
};

// A canvas of the given size in CSS pixels, sharp on every screen; returns its context, scaled.
heddle.sizeCanvas = function (canvas, width, height) {
  const ratio = Math.max(1, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
};

// Text that loses its middle when there is no room: kernel names differ at both ends.
heddle.clipped = function (text) {
  if (text.length < 20) return heddle.h("span", { class: "clipped" }, heddle.h("span", {}, text));
  const bracket = text.lastIndexOf("<");
  const tail = bracket > 0 && text.length - bracket <= 24 ? text.length - bracket : 10;
  return heddle.h("span", { class: "clipped" }, heddle.h("span", {}, text.slice(0, -tail)), heddle.h("span", {}, text.slice(-tail)));
};

heddle.font = (size = 12, weight = 400) => `${weight} ${size}px ${heddle.colour("font")}`;

heddle.tooltip = {
  // `lines`: the first is the heading; the others are [label, value] or text.
  show(clientX, clientY, lines) {
    const box = document.getElementById("tooltip");
    box.replaceChildren(...lines.filter(Boolean).map((line, i) => {
      if (i === 0) return heddle.h("strong", {}, line);
      return Array.isArray(line) ? heddle.h("div", {}, heddle.h("span", {}, line[0]), heddle.h("b", {}, line[1]))
        : heddle.h("div", {}, line);
    }));
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    const right = clientX + 16 + width < window.innerWidth - 4;
    box.style.left = `${heddle.clamp(right ? clientX + 16 : clientX - width - 16, 4, Math.max(4, window.innerWidth - width - 4))}px`;
    box.style.top = `${heddle.clamp(clientY + 16, 4, Math.max(4, window.innerHeight - height - 4))}px`;
  },
  hide() { document.getElementById("tooltip").hidden = true; },
};

// A legend: [{colour | shape class, text}].
heddle.legend = (entries) => heddle.h("ul", { class: "legend" }, entries.map((entry) =>
  heddle.h("li", { title: entry.title }, heddle.h("i", { class: entry.shape || "square", style: { color: entry.colour } }),
    entry.clip ? heddle.clipped(entry.text) : heddle.h("span", {}, entry.text))));
