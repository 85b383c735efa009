"use strict";
// The curves of several runs over one another, by step, time or tokens.

// How much of something a run had behind it at each of its points.
function sums(table, field) {
  const values = table.fields[field] ? table.fields[field].mean : [];
  let sum = 0;
  return table.step.map((_, i) => {
    const isLast = i === table.step.length - 1;
    const rows = isLast ? table.rows - i * table.rows_per_point : table.rows_per_point;
    sum += (values[i] || 0) * rows;
    return sum;
  });
}

// Where an evaluation after `step` stands on an axis of the steps' points.
function placed(steps, xs, step) {
  let at = 0;
  while (at < steps.length && steps[at] < step) ++at;
  if (at === steps.length) return steps.length ? xs[xs.length - 1] : step;
  const before = at > 0 ? steps[at - 1] : 0, from = at > 0 ? xs[at - 1] : 0;
  return steps[at] === before ? xs[at] : from + (xs[at] - from) * (step - before) / (steps[at] - before);
}

const AXES = {
  step: STEPS,
  time: {title: "time in steps", format: FORMATS.seconds, unit: "seconds", head: x => FORMATS.seconds(x, 4)},
  tokens: {title: "tokens", format: FORMATS.number, unit: "number", head: x => `${FORMATS.count(x)} tokens`},
};

// What each run has on each axis, for its steps and its evaluations.
function axesOf(run) {
  const {steps, evaluations} = run;
  const xs = {step: steps.step, time: sums(steps, "seconds"), tokens: sums(steps, "tokens")};
  const held = {step: evaluations.step};
  for (const axis of ["time", "tokens"]) held[axis] = evaluations.step.map(step => placed(steps.step, xs[axis], step));
  return {steps: xs, evaluations: held};
}

function drawComparison() {
  const {runs} = JSON.parse(document.getElementById("run-data").textContent);
  const drawn = [];   // all series, and what they have on each axis
  const table = {};
  const overlay = (kind, field, more) => runs.map((run, i) => {
    const axes = (table[i] = table[i] || axesOf(run))[kind];
    const series = curve(run[kind], field, run.name, 0, more);
    if (!series) return null;
    series.color = `var(--r${i})`;
    series.low = series.high = undefined;   // bands of several runs hide one another
    drawn.push({series, axes});
    return series;
  }).filter(Boolean);
  const specs = name => {
    const held = name.startsWith("measure-") ? name.slice(8) : name === "held-out" ? "loss" : null;
    if (held) return {series: overlay("evaluations", held, {dots: true})};
    return {series: overlay("steps", name), canSmooth: name !== "lr", fromZero: name !== "loss", cutPeaks: name === "grad_norm"};
  };
  const domain = axis => {
    const ends = drawn.flatMap(one => [one.axes[axis][0], one.axes[axis].at(-1)]).filter(x => x !== undefined);
    return ends.length ? [axis === "step" ? Math.min(...ends) : 0, Math.max(...ends)] : [0, 1];
  };
  const group = new ChartGroup([0, 1]);
  const bar = addToolbar(group, Math.max(...runs.map(run => run.steps.step.length)));
  const choice = html("span", "choice");
  bar.prepend(choice);
  const show = axis => {
    for (const one of drawn) one.series.x = one.axes[axis];
    for (const button of choice.children) button.setAttribute("aria-pressed", button.textContent === axis);
    group.setAxis(AXES[axis], domain(axis));
  };
  const hasTokens = runs.some(run => run.steps.fields.tokens && run.steps.fields.tokens.mean.some(value => value > 0));
  for (const axis of hasTokens ? ["step", "time", "tokens"] : ["step", "time"]) {
    const button = html("button", "", choice, axis);
    button.type = "button";
    button.addEventListener("click", () => show(axis));
  }
  drawFigures(specs, group);
  show("step");
}

drawComparison();
sayReady();
