"use strict";
// The charts of a run's report. Tables and figures are in the page itself; this draws what
// stands in <figure data-chart="...">. When all is drawn, <html data-ready> says how many
// milliseconds after navigation that was; an error is left in <html data-error>.

window.addEventListener("error", event => { document.documentElement.dataset.error = event.message; });

const color = number => `var(--c${number})`;

function curve(table, field, name, colorNumber, more) {
  const values = table.fields[field];
  if (!values) return null;
  return {name, color: color(colorNumber), x: table.step, y: values.mean, low: values.low, high: values.high, ...more};
}

// Null where nothing ever happened: a line of zeros tells nobody anything.
function unlessZero(series) {
  return series && series.y.some(value => value) ? series : null;
}

function present(...list) {
  return list.filter(Boolean);
}

// Rows hold what compute did and what it waited for; the rest of a step's time has no name.
function timeParts(steps) {
  const parts = present(
    curve(steps, "busy_compute", "computing", 1),
    unlessZero(curve(steps, "stall_disk", "waiting for disk", 2)),
    unlessZero(curve(steps, "stall_update", "waiting for updates", 5)),
    unlessZero(curve(steps, "stall_copy", "waiting for copies", 6)),
    unlessZero(curve(steps, "stall_collective", "waiting for other ranks", 4)));
  const seconds = steps.fields.seconds;
  if (!seconds) return parts;
  const rest = seconds.mean.map((total, i) => Math.max(0, parts.reduce((left, part) => left - (part.y[i] || 0), total || 0)));
  parts.push({name: "other", color: color(7), x: steps.step, y: rest});
  return present(...parts, unlessZero(curve(steps, "commit_seconds", "commits", 3)));
}

// A resource's busy time as a share of the step it was busy in.
function busyShare(steps, field, name, number, more) {
  const series = unlessZero(curve(steps, field, name, number, more));
  if (!series) return null;
  const seconds = steps.fields.seconds.mean;
  return {...series, low: undefined, high: undefined,
    y: series.y.map((value, i) => value === null || !seconds[i] ? null : value / seconds[i])};
}

function spreadsWidely(values) {
  const numbers = values ? values.mean.filter(value => value > 0) : [];
  return numbers.length > 0 && Math.max(...numbers) > 20 * Math.min(...numbers);
}

function chartSpecs(data) {
  const {steps, evaluations, budgets} = data;
  const heldOut = (field, name) => curve(evaluations, field, name, 2, {dots: true});
  return {
    loss: {series: present(curve(steps, "loss", "training", 1), heldOut("loss", "held out")), canSmooth: true},
    perplexity: {series: present(heldOut("perplexity", "held out")), logAtFirst: spreadsWidely(evaluations.fields.perplexity)},
    lr: {series: present(curve(steps, "lr", "learning rate", 3)), fromZero: true},
    grad_norm: {series: present(curve(steps, "grad_norm", "gradient norm", 4)), fromZero: true, canSmooth: true},
    loss_scale: {series: present(curve(steps, "loss_scale", "loss scale", 5)), logAtFirst: true},
    tokens_per_second: {series: present(curve(steps, "tokens_per_second", "tokens/s", 1)), fromZero: true, canSmooth: true},
    time: {series: timeParts(steps), unit: "seconds", stacked: true, ticks: data.commits},
    busy: {unit: "percent", fromZero: true, noLog: true, series: present(
      busyShare(steps, "busy_compute", "computing", 1),
      busyShare(steps, "busy_disk", "disk", 2, {dashed: true}),
      busyShare(steps, "busy_update", "updates, all workers", 5),
      busyShare(steps, "busy_copy", "copies", 6, {dashed: true}),
      busyShare(steps, "busy_collective", "collectives", 4))},
    memory: {unit: "bytes", fromZero: true, series: present(
      curve(steps, "peak_device", "device", 1),
      curve(steps, "peak_host", "host", 5),
      curve(steps, "peak_rss", "resident, whole process", 7, {dashed: true})),
    limits: [
      {name: "device budget", color: color(1), value: budgets.device},
      {name: "host budget", color: color(5), value: budgets.host}].filter(limit => limit.value > 0)},
    nvme: {unit: "bytes", fromZero: true, series: present(
      curve(steps, "nvme_read", "read", 1), curve(steps, "nvme_written", "written", 2, {dashed: true}))},
    predicted: {unit: "seconds", fromZero: true, series: present(
      curve(steps, "seconds", "measured", 1),
      curve(steps, "predicted_seconds", "predicted", 2, {dashed: true}),
      curve(steps, "bound_seconds", "lower bound", 7, {dashed: true}))},
  };
}

function addToolbar(group) {
  const bar = document.getElementById("toolbar");
  const label = html("label", "", bar, "Smoothing");
  const slider = html("input", "", label);
  Object.assign(slider, {type: "range", min: 0, max: 0.99, step: 0.01, value: 0});
  const shown = html("output", "", label, "off");
  slider.addEventListener("input", () => {
    group.smoothing = Number(slider.value);
    shown.textContent = group.smoothing ? group.smoothing.toFixed(2) : "off";
    group.redraw();
  });
  html("span", "", bar, "Drag over a chart to zoom all of them; a double click shows everything again.");
  const reset = html("button", "", bar, "Show all steps");
  reset.type = "button";
  reset.hidden = true;
  reset.addEventListener("click", () => group.zoom(null));
  group.onZoom = zoomed => { reset.hidden = !zoomed; };
}

function drawReport() {
  const data = JSON.parse(document.getElementById("run-data").textContent);
  const all = [...data.steps.step, ...data.evaluations.step];
  if (all.length === 0) return;
  const first = data.evaluations.step.length ? Math.min(data.steps.step[0] ?? 0, data.evaluations.step[0]) : data.steps.step[0];
  const last = Math.max(data.steps.step.at(-1) ?? 0, data.evaluations.step.at(-1) ?? 0);
  const group = new ChartGroup([first, last]);
  addToolbar(group);
  const specs = chartSpecs(data);
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const spec = specs[figure.dataset.chart];
    spec.title = figure.querySelector("h3").textContent;
    spec.marks = data.resumed_at;
    spec.firstStep = data.first_step;
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

drawReport();
document.documentElement.dataset.ready = Math.round(performance.now());
