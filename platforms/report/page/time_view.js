// The stretch of time that the plots of one GPU show. They share it, so that a zoom in one is a zoom in all.
heddle.TimeView = class {
  constructor(from, to) {
    this.full = [from, to];
    this.from = from;
    this.to = to;
    this.listeners = [];
    this.cursorListeners = [];
    this.pending = false;
  }
  get span() { return this.to - this.from; }
  onChange(listener) { this.listeners.push(listener); }
  onCursor(listener) { this.cursorListeners.push(listener); }
  cursor(time) { for (const listener of this.cursorListeners) listener(time); }
  set(from, to) {
    const [low, high] = this.full;
    const span = heddle.clamp(to - from, Math.min(high - low, Math.max((high - low) / 1e5, 0.02)), high - low);
    const start = heddle.clamp(from, low, high - span);
    if (start === this.from && start + span === this.to) return;
    this.from = start;
    this.to = start + span;
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      for (const listener of this.listeners) listener();
    });
  }
  zoom(factor, around = (this.from + this.to) / 2) {
    const share = (around - this.from) / this.span;
    const span = this.span * factor;
    this.set(around - share * span, around + (1 - share) * span);
  }
  pan(share) { this.set(this.from + share * this.span, this.to + share * this.span); }
  reset() { this.set(...this.full); }
};

// The margins that all time plots have in common, so that equal times stand below each other.
heddle.timeMargins = (width) => ({ left: width < 560 ? 62 : 92, right: 14 });

// Gestures on a time plot. `holder` is a positioned element around the canvas, `area()` the plotted rectangle in it.
// `hover(x, y, event)` gets positions within the holder; `leave()` when the pointer goes away; `click(x, y)`.
heddle.timeGestures = function (holder, view, area, { hover, leave, click } = {}) {
  const line = heddle.h("div", { class: "cursor", hidden: true });
  const box = heddle.h("div", { class: "selection", hidden: true });
  holder.append(line, box);
  holder.tabIndex = 0;
  const timeAt = (x) => view.from + ((x - area().left) / (area().right - area().left)) * view.span;
  const position = (event) => {
    const rectangle = holder.getBoundingClientRect();
    return [event.clientX - rectangle.left, event.clientY - rectangle.top];
  };
  const inside = (x) => x >= area().left && x <= area().right;
  const stop = () => { drag = null; box.hidden = true; };
  let drag = null;

  view.onCursor((time) => {
    const { left, right, top, bottom } = area();
    line.hidden = time === null || time < view.from || time > view.to;
    if (line.hidden) return;
    Object.assign(line.style, { left: `${left + ((time - view.from) / view.span) * (right - left)}px`, top: `${top}px`,
      height: `${bottom - top}px` });
  });
  holder.addEventListener("pointerdown", (event) => {
    const [x] = position(event);
    if (event.button === 0 && inside(x)) drag = { x, from: view.from, to: view.to, pan: event.shiftKey, moved: false };
  });
  holder.addEventListener("pointermove", (event) => {
    const [x, y] = position(event);
    view.cursor(inside(x) && event.pointerType !== "touch" ? timeAt(x) : null);
    if (!drag) { if (hover) hover(x, y, event); return; }
    if (!drag.moved && Math.abs(x - drag.x) < 5) return;
    if (!drag.moved) { drag.moved = true; holder.setPointerCapture(event.pointerId); if (leave) leave(); }
    const { left, right, top, bottom } = area();
    if (drag.pan) {
      const shift = ((drag.x - x) / (right - left)) * (drag.to - drag.from);
      view.set(drag.from + shift, drag.to + shift);
      return;
    }
    const [a, b] = [drag.x, heddle.clamp(x, left, right)].sort((p, q) => p - q);
    box.hidden = false;
    Object.assign(box.style, { left: `${a}px`, width: `${b - a}px`, top: `${top}px`, height: `${bottom - top}px` });
  });
  holder.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const [x, y] = position(event);
    const { x: start, pan, moved } = drag;
    stop();
    if (moved && !pan) {
      const [a, b] = [timeAt(start), timeAt(heddle.clamp(x, area().left, area().right))].sort((p, q) => p - q);
      view.set(a, b);
    } else if (!moved && click) click(x, y);
  });
  holder.addEventListener("pointercancel", stop);
  holder.addEventListener("pointerleave", () => { if (!drag) { view.cursor(null); if (leave) leave(); } });
  holder.addEventListener("dblclick", () => view.reset());
  holder.addEventListener("wheel", (event) => {
    // The plain wheel scrolls the page.
    const [x] = position(event);
    if (event.ctrlKey || event.metaKey) view.zoom(Math.exp(heddle.clamp(event.deltaY, -200, 200) * 0.004), timeAt(x));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan((event.deltaX || event.deltaY) / 1000);
    else return;
    event.preventDefault();
  }, { passive: false });
  holder.addEventListener("keydown", (event) => {
    const actions = { "+": () => view.zoom(0.5), "=": () => view.zoom(0.5), "-": () => view.zoom(2), "0": () => view.reset(),
      ArrowLeft: () => view.pan(-0.2), ArrowRight: () => view.pan(0.2) };
    if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
    actions[event.key]();
    event.preventDefault();
  });
};

// Buttons for those without a wheel, and what is shown.
heddle.timeToolbar = function (view) {
  const shown = heddle.h("span", { class: "shown" });
  const update = () => {
    const [low, high] = view.full;
    const all = view.from === low && view.to === high;
    shown.textContent = all ? `Showing all ${heddle.time(high - low)}`
      : `Showing ${heddle.time(view.from, 4)} to ${heddle.time(view.to, 4)} of ${heddle.time(high - low)}`;
  };
  const button = (text, label, action) => heddle.h("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
  view.onChange(update);
  update();
  return heddle.h("div", { class: "toolbar" },
    heddle.h("div", { class: "buttons" },
      button("\u2190", "Earlier", () => view.pan(-0.5)), button("\u2212", "Zoom out", () => view.zoom(2)),
      button("+", "Zoom in", () => view.zoom(0.5)), button("\u2192", "Later", () => view.pan(0.5)),
      button("All", "Show the whole run", () => view.reset())),
    shown,
    heddle.h("span", { class: "hint" }, "Drag across a plot to zoom, shift-drag to move, Ctrl and wheel to zoom at the pointer, double-click for all."));
};

// Draws the time axis of a canvas plot below `area`.
heddle.drawTimeAxis = function (context, view, area) {
  const { ticks, label, unit } = heddle.timeTicks(view.from, view.to, area.right - area.left);
  context.font = heddle.font();
  context.textBaseline = "top";
  context.textAlign = "center";
  context.strokeStyle = heddle.colour("grid");
  context.fillStyle = heddle.colour("muted");
  context.lineWidth = 1;
  for (const tick of ticks) {
    const x = Math.round(area.left + ((tick - view.from) / view.span) * (area.right - area.left)) + 0.5;
    context.beginPath();
    context.moveTo(x, area.bottom);
    context.lineTo(x, area.bottom + 5);
    context.stroke();
    context.fillText(label(tick), x, area.bottom + 8);
  }
  context.fillText(`Time since the start of the run (${unit})`, (area.left + area.right) / 2, area.bottom + 27);
};
heddle.timeAxisHeight = 44;
