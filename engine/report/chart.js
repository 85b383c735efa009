"use strict";
// A line or area chart as SVG: axes, legend, read-out under the pointer, logarithmic scale,
// zoom along x. Charts of one group share their zoom and their cursor, and what x is.

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(element);
  return element;
}

function html(name, className, parent, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

// --- Numbers for people.

function trim(value, digits) {
  const text = Math.abs(value) >= 1e7 || (value !== 0 && Math.abs(value) < 1e-4)
    ? value.toExponential(Math.max(0, digits - 1)).replace(/\.?0+e/, "e").replace("e+", "e")
    : Number(value.toPrecision(digits)).toString();
  return text.replace(/^(-?\d+)/, whole => whole.replace(/\B(?=(\d{3})+$)/g, ","));
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const FORMATS = {
  number: (value, digits) => trim(value, digits),
  count: value => trim(Math.round(value), 15),
  percent: (value, digits) => trim(value * 100, digits) + " %",
  bytes: (value, digits) => {
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < BYTE_UNITS.length - 1) { value /= 1024; ++unit; }
    return trim(value, digits) + " " + BYTE_UNITS[unit];
  },
  seconds: (value, digits) => {
    const size = Math.abs(value);
    if (size >= 7200) return trim(value / 3600, digits) + " h";
    if (size >= 120) return trim(value / 60, digits) + " min";
    if (size >= 1 || size === 0) return trim(value, digits) + " s";
    if (size >= 1e-3) return trim(value * 1e3, digits) + " ms";
    return trim(value * 1e6, digits) + " µs";
  },
};

// --- Scales.

// About `count` round numbers from low to high; bytes are round in powers of two, long times in
// minutes or hours.
function linearTicks(low, high, count, unit) {
  let step = (high - low) / count;
  let base = 1;
  if (unit === "bytes") {
    while (step / base >= 1024) base *= 1024;
  } else if (unit === "seconds" && step >= 30) {
    base = step >= 1800 ? 3600 : 60;
  }
  const rough = step / base;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const round = unit === "bytes"
    ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find(n => n >= rough * 0.8) || rough
    : power * [1, 2, 5, 10].find(n => n * power >= rough * 0.8);
  step = round * base;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const parts = decades > 5 ? [1] : decades > 1.2 ? [1, 3] : [1, 1.5, 2, 3, 4, 5, 7];
  const skip = Math.max(1, Math.ceil(decades / 8));
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += skip) {
    for (const part of parts) {
      const tick = part * Math.pow(10, power);
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

// The exponential moving average, corrected for its beginning.
function smoothed(values, weight) {
  let sum = 0, share = 0;
  return values.map(value => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return sum / share;
  });
}

// The index of the entry of the ascending `xs` that is nearest to x.
function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle; else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

// --- What the charts of a page share.

// What x may be: steps, or whatever else grows with them. `head` is the read-out's first line, for x
// and the point before it.
const STEPS = {
  title: "step", format: FORMATS.count, unit: "count", whole: true,
  head: (x, before) => x - before > 1
    ? `steps ${FORMATS.count(before + 1)} to ${FORMATS.count(x)}` : `step ${FORMATS.count(x)}`,
};

class ChartGroup {
  constructor(domain) {
    this.axis = STEPS;
    this.domain = domain;   // all of x: [first, last]
    this.range = domain;    // what is in view
    this.smoothing = 0;
    this.printing = false;
    this.charts = [];
    this.onZoom = () => {};
  }

  zoom(range) {
    this.range = range || this.domain;
    this.onZoom(this.range !== this.domain);
    this.redraw();
  }

  // Another x: `domain` is all of it.
  setAxis(axis, domain) {
    this.axis = axis;
    this.domain = domain;
    this.zoom(null);
  }

  redraw() {
    for (const chart of this.charts) chart.draw();
  }

  // The cursor stands at the same step in every chart; the read-out is where the pointer is.
  point(x, chart) {
    for (const other of this.charts) other.showCursor(x, other === chart);
  }
}

const MARGIN = {left: 62, right: 24, top: 10, bottom: 36};

// spec: {
//   title, unit,
//   series: [{name, color, x, y, low, high, dashed, dots}]   arrays of numbers or null
//   limits: [{name, color, value}]                           horizontal lines
//   marks: [x]                                               vertical lines (resumes)
//   ticks: [x]                                               small ticks on the axis (commits)
//   stacked, fromZero, logAtFirst, noLog, canSmooth
//   cutPeaks    few values far above all others are cut off, and marked at the upper edge
// }
class Chart {
  constructor(figure, spec, group) {
    this.figure = figure;
    this.spec = spec;
    this.group = group;
    this.log = Boolean(spec.logAtFirst);
    this.hidden = new Set();
    this.addTools();
    this.addLegend();
    this.svg = svg("svg", {role: "img", tabindex: 0}, figure);
    this.tooltip = html("div", "tooltip", figure);
    this.tooltip.hidden = true;
    this.addPointer();
    group.charts.push(this);
    this.draw();
  }

  addTools() {
    if (this.spec.stacked || this.spec.noLog) return;
    const tools = html("div", "tools", this.figure);
    const button = html("button", "", tools, "log");
    button.type = "button";
    button.title = "Logarithmic scale";
    button.setAttribute("aria-pressed", this.log);
    button.addEventListener("click", () => {
      this.log = !this.log;
      button.setAttribute("aria-pressed", this.log);
      this.draw();
    });
  }

  addLegend() {
    const entries = [...this.spec.series, ...(this.spec.limits || [])];
    if (entries.length < 2) return;
    const legend = html("div", "legend", this.figure);
    for (const entry of entries) {
      const button = html("button", "", legend);
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const sample = svg("svg", {viewBox: "0 0 20 10", "aria-hidden": "true"}, button);
      if (this.spec.stacked) {
        svg("rect", {x: 4, y: 0, width: 11, height: 10, rx: 2, style: `fill: ${entry.color}`}, sample);
      } else {
        svg("path", {d: "M0 5H20", style: `stroke: ${entry.color}`, "stroke-width": 2.4,
          "stroke-dasharray": entry.value !== undefined ? "7 4" : entry.dashed ? "4 3" : "none"}, sample);
        if (entry.dots) svg("circle", {cx: 10, cy: 5, r: 3, style: `fill: ${entry.color}`}, sample);
      }
      html("span", "", button, entry.name);
      button.addEventListener("click", () => {
        const shown = this.hidden.delete(entry);
        if (!shown) this.hidden.add(entry);
        button.setAttribute("aria-pressed", shown);
        this.draw();
      });
    }
  }

  // What is drawn: smoothed where that is asked for, piled up where stacked.
  visibleSeries() {
    const weight = this.spec.canSmooth ? this.group.smoothing : 0;
    const shown = this.spec.series.filter(series => !this.hidden.has(series));
    let below = null;
    return shown.map(series => {
      if (this.spec.stacked) {
        const bottom = below || series.y.map(() => 0);
        below = series.y.map((value, i) => bottom[i] + (value || 0));
        return {...series, bottom, curve: below};
      }
      return {...series, curve: weight > 0 && !series.dots ? smoothed(series.y, weight) : series.y};
    });
  }

  // Where the axis ends so that a few peaks do not flatten the rest; Infinity where there are none.
  peakLimit(list) {
    if (!this.spec.cutPeaks || this.log) return Infinity;
    const [first, last] = this.group.range;
    const values = [], highs = [];
    for (const series of list) {
      series.x.forEach((x, i) => {
        if (x < first || x > last || series.y[i] === null) return;
        values.push(series.y[i]);
        highs.push(series.high ? series.high[i] : series.y[i]);
      });
    }
    if (values.length < 8) return Infinity;
    values.sort((a, b) => a - b);
    const usual = values[Math.floor(0.95 * (values.length - 1))] * 1.6;
    return Math.max(...highs) > 1.6 * usual ? usual : Infinity;
  }

  verticalRange(list) {
    this.limit = this.peakLimit(list);
    let low = Infinity, high = -Infinity;
    const take = value => {
      if (value === null || value === undefined || (this.log && value <= 0)) return;
      value = Math.min(value, this.limit);
      if (value < low) low = value;
      if (value > high) high = value;
    };
    const [first, last] = this.group.range;
    for (const series of list) {
      for (let i = 0; i < series.x.length; ++i) {
        if (series.x[i] < first || series.x[i] > last) continue;
        take(series.curve[i]);
        if (this.spec.stacked) take(series.bottom[i]);
        if (series.low) { take(series.low[i]); take(series.high[i]); }
        if (!this.spec.stacked) take(series.y[i]);
      }
    }
    for (const limit of this.spec.limits || []) {
      if (!this.hidden.has(limit) && (!limit.ifNear || limit.value < 2 * high)) take(limit.value);
    }
    if (low > high) return null;
    if (this.log) return low === high ? [low / 2, high * 2] : [low / 1.08, high * 1.08];
    if (this.spec.fromZero || this.spec.stacked) low = Math.min(0, low);
    const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
    return [low === 0 ? 0 : low - room, high + room];
  }

  draw() {
    const box = this.svg;
    box.replaceChildren();
    this.tooltip.hidden = true;
    const {width, height} = this.size();
    box.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.list = this.visibleSeries();
    const range = this.verticalRange(this.list);
    box.setAttribute("aria-label", this.describe(range));
    if (!range) {
      svg("text", {x: width / 2, y: height / 2, "text-anchor": "middle"}, box).textContent = "nothing to show";
      this.cursor = null;
      return;
    }
    const [first, last] = this.group.range;
    const span = last > first ? last - first : 2;
    const start = last > first ? first : first - 1;
    const inner = {left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom};
    this.inner = inner;
    this.toX = x => inner.left + (x - start) / span * (inner.right - inner.left);
    this.fromX = px => start + (px - inner.left) / (inner.right - inner.left) * span;
    const scale = this.log ? Math.log : value => value;
    const [bottom, top] = range.map(scale);
    this.toY = y => inner.bottom - (scale(y) - bottom) / (top - bottom) * (inner.bottom - inner.top);

    this.drawAxes(range, start, span, width, height);
    const clip = "clip" + (Chart.serial = (Chart.serial || 0) + 1);
    svg("rect", {x: inner.left - 4, y: inner.top - 4, width: inner.right - inner.left + 8, height: inner.bottom - inner.top + 4},
      svg("clipPath", {id: clip}, box));
    this.plot = svg("g", {"clip-path": `url(#${clip})`}, box);
    for (const series of this.list) this.drawSeries(series);
    for (const limit of this.spec.limits || []) {
      if (this.hidden.has(limit)) continue;
      svg("path", {class: "limit", d: `M${inner.left} ${this.toY(limit.value)}H${inner.right}`, style: `stroke: ${limit.color}`}, this.plot);
    }
    this.drawTicks();
    this.drawPeaks();
    this.cursor = svg("line", {class: "cursor", y1: inner.top, y2: inner.bottom, visibility: "hidden"}, box);
    this.dots = svg("g", {"pointer-events": "none"}, box);
  }

  // On paper a chart is drawn for the place that it has there, so that its text keeps its size.
  size() {
    if (this.group.printing) {
      return this.figure.matches(".wide, .lead > :last-child:nth-child(even)") ? {width: 680, height: 190} : {width: 320, height: 165};
    }
    const width = Math.max(240, this.figure.clientWidth - 32);
    return {width, height: width > 800 ? 300 : 235};
  }

  drawAxes(range, start, span, width, height) {
    const {inner, svg: box, spec} = this;
    const {axis} = this.group;
    const format = FORMATS[spec.unit || "number"];
    const ticks = this.log ? logTicks(range[0], range[1]) : linearTicks(range[0], range[1], 5, spec.unit);
    for (const tick of ticks) {
      const y = this.toY(tick);
      svg("path", {class: "gridline", d: `M${inner.left} ${y}H${inner.right}`}, box);
      svg("text", {x: inner.left - 8, y: y + 4, "text-anchor": "end"}, box).textContent = format(tick, 4);
    }
    svg("path", {class: "axis", d: `M${inner.left} ${inner.bottom}H${inner.right}`}, box);
    for (const tick of linearTicks(start, start + span, Math.max(3, Math.floor(width / 110)), axis.unit)) {
      if (axis.whole && tick !== Math.round(tick)) continue;
      const x = this.toX(tick);
      svg("path", {class: "axis", d: `M${x} ${inner.bottom}v4`}, box);
      svg("text", {x, y: inner.bottom + 16, "text-anchor": "middle"}, box).textContent = axis.format(tick, 4);
    }
    svg("text", {x: (inner.left + inner.right) / 2, y: height - 4, "text-anchor": "middle"}, box).textContent = axis.title;
    for (const mark of spec.marks || []) {
      const x = this.toX(mark);
      if (x >= inner.left && x <= inner.right) svg("path", {class: "resume", d: `M${x} ${inner.top}V${inner.bottom}`}, box);
    }
  }

  // A mark at the upper edge for every point beyond it.
  drawPeaks() {
    if (this.limit === Infinity) return;
    const {inner} = this;
    const [first, last] = this.group.range;
    let count = 0;
    for (const series of this.list) {
      let path = "";
      series.x.forEach((x, i) => {
        const value = series.high ? series.high[i] : series.y[i];
        if (x < first || x > last || value === null || value <= this.limit) return;
        ++count;
        path += `M${(this.toX(x) - 3.5).toFixed(1)} ${inner.top + 5}h7l-3.5 -6z`;
      });
      if (path) svg("path", {class: "peak", d: path, style: `fill: ${series.color}`}, this.svg);
    }
    svg("text", {x: inner.right, y: inner.top + 18, "text-anchor": "end"}, this.svg).textContent =
      count === 1 ? "1 peak beyond the axis" : `${FORMATS.count(count)} peaks beyond the axis`;
  }

  drawTicks() {
    const {inner} = this;
    const at = (this.spec.ticks || []).map(this.toX).filter(x => x >= inner.left && x <= inner.right);
    if (!at.length) return;
    const path = at.map(x => `M${x.toFixed(1)} ${inner.bottom + 1}v-8`).join("");
    svg("path", {class: "tick", d: path}, this.svg);
  }

  drawSeries(series) {
    const style = `stroke: ${series.color}`;
    if (this.spec.stacked) {
      const upper = series.x.map((x, i) => `${this.toX(x).toFixed(1)} ${this.toY(series.curve[i]).toFixed(1)}`);
      const lower = series.x.map((x, i) => `${this.toX(x).toFixed(1)} ${this.toY(series.bottom[i]).toFixed(1)}`);
      if (series.x.length === 1) {
        const x = this.toX(series.x[0]) - 20, y = this.toY(series.curve[0]);
        svg("rect", {x, y, width: 40, height: this.toY(series.bottom[0]) - y, style: `fill: ${series.color}`}, this.plot);
      } else {
        svg("path", {d: `M${upper.join("L")}L${lower.reverse().join("L")}Z`, style: `fill: ${series.color}; fill-opacity: .88`}, this.plot);
      }
      return;
    }
    if (series.low) this.drawBand(series);
    if (series.curve !== series.y) {
      svg("path", {class: "curve faint", d: this.path(series.x, series.y), style}, this.plot);
    }
    if (series.wide) {
      svg("path", {class: "curve wide", d: this.path(series.x, series.curve), style}, this.plot);
      return;
    }
    const dash = series.dashed ? {"stroke-dasharray": "5 4"} : {};
    svg("path", {class: "curve", d: this.path(series.x, series.curve), style, ...dash}, this.plot);
    if (series.x.length <= 40 || (series.dots && series.x.length <= 120)) {
      for (let i = 0; i < series.x.length; ++i) {
        if (!this.drawable(series.curve[i])) continue;
        svg("circle", {cx: this.toX(series.x[i]), cy: this.toY(series.curve[i]), r: series.dots && series.x.length <= 20 ? 3.2 : 2.3, style: `fill: ${series.color}`}, this.plot);
      }
    }
  }

  drawable(value) {
    return value !== null && value !== undefined && !(this.log && value <= 0);
  }

  // A new stretch begins after every gap.
  path(xs, ys) {
    let path = "", pen = "M";
    for (let i = 0; i < xs.length; ++i) {
      if (!this.drawable(ys[i])) { pen = "M"; continue; }
      path += pen + this.toX(xs[i]).toFixed(1) + " " + this.toY(ys[i]).toFixed(1);
      pen = "L";
    }
    return path;
  }

  drawBand(series) {
    const upper = [], lower = [];
    for (let i = 0; i < series.x.length; ++i) {
      if (!this.drawable(series.low[i]) || !this.drawable(series.high[i])) continue;
      const x = this.toX(series.x[i]).toFixed(1);
      upper.push(`${x} ${this.toY(series.high[i]).toFixed(1)}`);
      lower.push(`${x} ${this.toY(series.low[i]).toFixed(1)}`);
    }
    if (upper.length < 2) return;
    svg("path", {class: "band", d: `M${upper.join("L")}L${lower.reverse().join("L")}Z`, style: `fill: ${series.color}`}, this.plot);
  }

  describe(range) {
    if (!range) return `${this.spec.title}: nothing to show`;
    const format = FORMATS[this.spec.unit || "number"];
    const ends = this.spec.series.map(series => {
      const values = series.y.filter(value => value !== null);
      return values.length ? `${series.name} from ${format(values[0], 4)} to ${format(values[values.length - 1], 4)}` : "";
    });
    return `${this.spec.title} by ${this.group.axis.title}: ${ends.filter(Boolean).join("; ")}`;
  }

  // --- Pointer and keys.

  addPointer() {
    const box = this.svg;
    const at = event => {
      const bounds = box.getBoundingClientRect();
      return (event.clientX - bounds.left) * box.viewBox.baseVal.width / bounds.width;
    };
    let from = null, selection = null;
    box.addEventListener("pointermove", event => {
      if (!this.cursor) return;
      const px = Math.min(this.inner.right, Math.max(this.inner.left, at(event)));
      this.group.point(this.fromX(px), this);
      if (from === null) return;
      if (!selection) selection = svg("rect", {class: "selection", y: this.inner.top, height: this.inner.bottom - this.inner.top}, box);
      selection.setAttribute("x", Math.min(from, px));
      selection.setAttribute("width", Math.abs(px - from));
    });
    box.addEventListener("pointerdown", event => {
      if (event.button === 0 && event.pointerType === "mouse" && this.cursor) from = Math.max(this.inner.left, at(event));
    });
    const finish = event => {
      const begin = from;
      from = null;
      if (selection) selection.remove();
      selection = null;
      if (begin === null || event.type === "pointerleave") return;
      const end = Math.min(this.inner.right, at(event));
      if (Math.abs(end - begin) < 8) return;
      const range = [begin, end].map(this.fromX).sort((a, b) => a - b)
        .map(x => this.group.axis.whole ? Math.round(x) : x);
      if (range[1] > range[0]) this.group.zoom(range);
    };
    box.addEventListener("pointerup", finish);
    box.addEventListener("pointerleave", event => { finish(event); this.group.point(null, this); });
    box.addEventListener("dblclick", () => this.group.zoom(null));
    box.addEventListener("blur", () => this.group.point(null, this));
    box.addEventListener("keydown", event => this.onKey(event));
  }

  onKey(event) {
    const xs = this.longest();
    if (!xs || !this.cursor) return;
    const now = this.at === undefined || this.at === null ? -1 : nearest(xs, this.at);
    const to = {ArrowRight: now + 1, ArrowLeft: now < 0 ? xs.length - 1 : now - 1, Home: 0, End: xs.length - 1}[event.key];
    if (event.key === "Escape") this.group.point(null, this);
    if (to === undefined) return;
    event.preventDefault();
    this.group.point(xs[Math.min(xs.length - 1, Math.max(0, to))], this);
  }

  longest() {
    return (this.list || []).map(series => series.x).sort((a, b) => b.length - a.length)[0];
  }

  showCursor(x, withTooltip) {
    if (!this.cursor) return;
    this.at = x;
    this.dots.replaceChildren();
    const xs = this.longest();
    if (x === null || !xs || !xs.length) {
      this.cursor.setAttribute("visibility", "hidden");
      this.tooltip.hidden = true;
      return;
    }
    const step = xs[nearest(xs, x)];
    const px = Math.min(this.inner.right, Math.max(this.inner.left, this.toX(step)));
    this.cursor.setAttribute("x1", px);
    this.cursor.setAttribute("x2", px);
    this.cursor.setAttribute("visibility", "visible");
    this.tooltip.hidden = !withTooltip;
    if (withTooltip) this.fillTooltip(step, xs, px);
  }

  fillTooltip(step, xs, px) {
    const format = FORMATS[this.spec.unit || "number"];
    const index = nearest(xs, step);
    const before = index > 0 ? xs[index - 1] : (this.spec.firstStep || 1) - 1;
    const box = this.tooltip;
    box.replaceChildren();
    const {axis} = this.group;
    html("div", "head", box, axis.head(step, before));
    const rows = this.spec.stacked ? [...this.list].reverse() : this.list;
    for (const series of rows) {
      const i = nearest(series.x, step);
      const value = series.y[i];
      if (value === null) continue;
      const row = html("div", "row", box);
      html("i", "", row).style.background = series.color;
      // A series of its own steps, such as evaluations, says which of them is the nearest.
      const elsewhere = series.x !== xs && (series.x[i] > step || series.x[i] <= before);
      html("span", "", row, elsewhere ? `${series.name}, ${axis.head(series.x[i], series.x[i] - 1)}` : series.name);
      let text = format(value, 5);
      if (series.low && series.low[i] !== series.high[i]) text += ` (${format(series.low[i], 4)} to ${format(series.high[i], 4)})`;
      html("b", "", row, text);
      const drawn = series.curve[i];
      if (!this.spec.stacked && this.drawable(drawn)) {
        svg("circle", {cx: this.toX(series.x[i]), cy: this.toY(drawn), r: 3.6, style: `fill: ${series.color}`}, this.dots);
      }
    }
    this.placeTooltip(px);
  }

  // Beside the cursor, on the side that has room.
  placeTooltip(px) {
    const box = this.tooltip, figure = this.figure.getBoundingClientRect(), drawing = this.svg.getBoundingClientRect();
    const at = drawing.left - figure.left + px * drawing.width / this.svg.viewBox.baseVal.width;
    box.style.left = "0px";
    const flip = at + 14 + box.offsetWidth > figure.width;
    box.style.left = `${Math.max(4, flip ? at - 14 - box.offsetWidth : at + 14)}px`;
    box.style.top = `${drawing.top - figure.top + 14}px`;
  }
}

// --- What pages are made of.

window.addEventListener("error", event => { document.documentElement.dataset.error = event.message; });

const color = number => `var(--c${number})`;

function curve(table, field, name, colorNumber, more) {
  const values = table.fields[field];
  if (!values) return null;
  return {name, color: color(colorNumber), x: table.step, y: values.mean, low: values.low, high: values.high, ...more};
}

function present(...list) {
  return list.filter(Boolean);
}

function spreadsWidely(values) {
  const numbers = values ? values.mean.filter(value => value > 0) : [];
  return numbers.length > 0 && Math.max(...numbers) > 20 * Math.min(...numbers);
}

// Smoothing is light at first where there are enough points for it. Returns the bar.
function addToolbar(group, points) {
  const bar = document.getElementById("toolbar");
  const label = html("label", "", bar, "Smoothing");
  const slider = html("input", "", label);
  Object.assign(slider, {type: "range", min: 0, max: 0.99, step: 0.01});
  const shown = html("output", "", label);
  const smooth = weight => {
    group.smoothing = weight;
    shown.textContent = weight ? weight.toFixed(2) : "off";
  };
  smooth(points >= 40 ? 0.5 : 0);
  slider.value = group.smoothing;
  slider.addEventListener("input", () => {
    smooth(Number(slider.value));
    group.redraw();
  });
  html("span", "", bar, "Drag over a chart to zoom all of them; a double click shows everything again.");
  const reset = html("button", "", bar, "Show everything");
  reset.type = "button";
  reset.hidden = true;
  reset.addEventListener("click", () => group.zoom(null));
  group.onZoom = zoomed => { reset.hidden = !zoomed; };
  return bar;
}

// Draws every <figure data-chart> by its spec.
function drawFigures(specs, group) {
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const spec = specs(figure.dataset.chart);
    spec.title = figure.querySelector("h3").textContent;
    new Chart(figure, spec, group);
  }
  const print = printing => () => { group.printing = printing; group.redraw(); };
  window.addEventListener("beforeprint", print(true));
  window.addEventListener("afterprint", print(false));
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    group.redraw();
  });
}

// For tests: when all is drawn, <html data-ready> says how many milliseconds after navigation that
// was; an error is left in <html data-error>.
function sayReady() {
  document.documentElement.dataset.ready = Math.round(performance.now());
}
