"use strict";
// The charts of a run's report. Tables and figures are in the page itself; this draws what
// stands in <figure data-chart="...">.

// Null where nothing ever happened: a line of zeros tells nobody anything.
function unlessZero(series) {
  return series && series.y.some(value => value) ? series : null;
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

function chartSpecs(data) {
  const {steps, evaluations, budgets} = data;
  const heldOut = (field, name) => curve(evaluations, field, name, 2, {dots: true});
  const specs = {
    loss: {series: present(curve(steps, "loss", "training", 1), heldOut("loss", "held out")), canSmooth: true},
    perplexity: {series: present(heldOut("perplexity", "held out")), logAtFirst: spreadsWidely(evaluations.fields.perplexity)},
    lr: {series: present(curve(steps, "lr", "learning rate", 3)), fromZero: true},
    grad_norm: {series: present(curve(steps, "grad_norm", "gradient norm", 4)), fromZero: true, canSmooth: true, cutPeaks: true,
      limits: data.clip > 0 ? [{name: "clipped to", color: color(7), value: data.clip, ifNear: true}] : []},
    loss_scale: {series: present(curve(steps, "loss_scale", "loss scale", 5)), logAtFirst: true},
    tokens_per_second: {series: present(curve(steps, "tokens_per_second", "tokens/s", 1)), fromZero: true, canSmooth: true},
    samples_per_second: {series: present(curve(steps, "samples_per_second", "samples/s", 1)), fromZero: true, canSmooth: true},
    time: {series: timeParts(steps), unit: "seconds", stacked: true, ticks: data.commits},
    busy: {unit: "percent", fromZero: true, noLog: true, series: present(
      busyShare(steps, "busy_compute", "computing", 1),
      busyShare(steps, "busy_disk", "disk", 2, {dashed: true}),
      busyShare(steps, "busy_update", "updates, all workers", 5),
      busyShare(steps, "busy_copy", "copies", 6, {dashed: true}),
      busyShare(steps, "busy_collective", "collectives", 4))},
    memory: {unit: "bytes", fromZero: true, series: present(
      curve(steps, "peak_device", "device", 1),
      curve(steps, "peak_host", "host", 5)),
    limits: [
      {name: "device budget", color: color(1), value: budgets.device},
      {name: "host budget", color: color(5), value: budgets.host}].filter(limit => limit.value > 0)},
    resident: {unit: "bytes", fromZero: true, series: present(curve(steps, "peak_rss", "resident", 7))},
    nvme: {unit: "bytes", fromZero: true, series: present(
      curve(steps, "nvme_read", "read", 1), curve(steps, "nvme_written", "written", 2, {dashed: true}))},
    predicted: {unit: "seconds", fromZero: true, series: present(
      curve(steps, "bound_seconds", "lower bound", 7, {wide: true}),
      curve(steps, "seconds", "measured", 1),
      curve(steps, "predicted_seconds", "predicted", 2, {dashed: true}))},
  };
  // What evaluations measure besides the loss.
  return name => specs[name] || {series: present(heldOut(name.replace(/^measure-/, ""), "held out"))};
}

// --- A run that goes on.

// The page is loaded again, and looks as it did: where it was scrolled to, what was in view.
function reloadWhileRunning(running, group) {
  const key = "spillway " + location.pathname;
  let kept = null;
  try { kept = JSON.parse(sessionStorage.getItem(key)); } catch (error) { /* not allowed here */ }
  const folds = [...document.querySelectorAll("details")];
  if (kept) {
    if (kept.range) group.zoom(kept.range);
    folds.forEach((fold, i) => { fold.open = kept.open[i] === true; });
    window.scrollTo(0, kept.scroll);
  }
  history.scrollRestoration = "manual";
  const load = () => {
    if (document.hidden) { document.addEventListener("visibilitychange", load, {once: true}); return; }
    const range = group.range === group.domain ? null : group.range;
    const now = {scroll: window.scrollY, range, open: folds.map(fold => fold.open)};
    try { sessionStorage.setItem(key, JSON.stringify(now)); } catch (error) { /* likewise */ }
    location.reload();
  };
  setTimeout(load, running.reload_seconds * 1000);
  const age = Date.now() / 1000 - running.now;
  const shown = document.getElementById("age");
  if (shown && age >= 5) shown.textContent = ` (${FORMATS.seconds(age, 2)} ago)`;
  if (age > running.stale_seconds) {
    html("div", "message", document.querySelector("header"),
      "Nothing has been written here for " + FORMATS.seconds(age, 2) +
      ". If the run was killed, `spillway report` makes this page again and says so.");
  }
}

function drawReport() {
  const data = JSON.parse(document.getElementById("run-data").textContent);
  const all = [...data.steps.step, ...data.evaluations.step];
  const first = data.evaluations.step.length ? Math.min(data.steps.step[0] ?? 0, data.evaluations.step[0]) : data.steps.step[0];
  const last = Math.max(data.steps.step.at(-1) ?? 0, data.evaluations.step.at(-1) ?? 0);
  const group = new ChartGroup([first ?? 0, last]);
  if (all.length > 0) {
    addToolbar(group, data.steps.step.length);
    const specs = chartSpecs(data);
    drawFigures(name => ({...specs(name), marks: data.resumed_at, firstStep: data.first_step}), group);
  }
  if (data.running) reloadWhileRunning(data.running, group);
}

drawReport();
sayReady();
