// The report's charts, from its curves.

const inUnits = (text, report) => (report.units ? `${text} (${report.units})` : text);
const MANY = 8; // with more groups than this, the rest start switched off

function groupSeries(groups, part) {
  const lines = groups.map((g, i) => ({
    name: g.label, tone: colour(i), dash: dash(i), x: g.curves.episode, y: g.curves[part].middle,
    low: g.curves[part].low, high: g.curves[part].high, upper: g.curves[part].upper, off: i >= MANY,
  }));
  if (lines.length <= MANY) {
    lines.forEach((line, i) => { // one that lies on others is dashed, so that they show in its gaps
      const beneath = lines.slice(0, i).filter((other) => covers(line, other)).length;
      line.dash = ["", "9 9", "6 10", "3 12"][Math.min(beneath, 3)];
    });
  }
  return lines;
}

// Whether two curves are nearly the same along a third of their points.
function covers(a, b) {
  if (a.y.length !== b.y.length) return false;
  const same = a.y.filter((y, i) => Math.abs(y - b.y[i]) <= 0.01 * Math.abs(y)).length;
  return same > a.y.length / 3;
}

function switches(host, label, choices, act) {
  const buttons = choices.map(([text, value], i) =>
    element("button", { type: "button", "aria-pressed": String(i === 0), onclick: () => {
      buttons.forEach((b, j) => b.setAttribute("aria-pressed", String(i === j)));
      act(value);
    } }, text));
  host.append(element("div", { class: "tools" }, element("span", { class: "switch", role: "group", "aria-label": label }, ...buttons)));
}

function regretChart(host, report) {
  const series = groupSeries(report.groups, "regret");
  for (const limit of report.limits) series.push({ name: limit.name, tone: "var(--soft)", dash: limit.dash, thin: true, x: limit.x, y: limit.y, off: limit.off });
  for (const mark of report.lowerLimits) series.push({ name: mark.name, tone: "var(--bad)", x: [mark.x], y: [mark.y], mark: true });
  const options = { label: "Cumulative regret over episodes", xLabel: "episodes", yLabel: inUnits("regret", report), series, height: innerWidth < 600 ? 300 : 420, xLog: true, yLog: true, whole: true, x: (k) => `${whole(k)} episodes` };
  const place = element("div");
  let chart = null;
  switches(host, "Axes", [["logarithmic", true], ["linear", false]], (log) => {
    const bounds = new Set(report.limits.map((l) => l.name));
    for (const name of bounds) {
      if (log && !report.limits.find((l) => l.name === name).off) chart.hidden.delete(name);
      else chart.hidden.add(name); // on a linear axis a bound would flatten everything
    }
    chart.drawLegend();
    chart.set({ xLog: log, yLog: log });
  });
  host.append(place);
  chart = new Chart(place, options);
}

function valueChart(host, report) {
  const series = groupSeries(report.groups, "value");
  report.groups.forEach((g, i) => series.push({ name: `${g.label}: hoped for`, tone: colour(i), dash: "1 4", thin: true, x: g.curves.episode, y: g.curves.optimistic, off: i >= 3 }));
  report.optima.forEach((o) => series.push({ name: o.name, tone: "var(--soft)", dash: "5 4", thin: true, x: [1, o.episodes], y: [o.value, o.value] }));
  const options = { label: "Value of the policy in force over episodes", xLabel: "episodes", yLabel: inUnits("value of the policy", report), series, xLog: true, yLog: false, steps: true, whole: true, x: (k) => `episode ${whole(k)}` };
  new Chart(host, options);
}

function updatesChart(host, report) {
  const series = groupSeries(report.groups, "updates");
  for (const limit of report.updateLimits) series.push({ name: limit.name, tone: "var(--soft)", dash: "5 4", thin: true, x: limit.x, y: limit.y });
  new Chart(host, { label: "Policy updates over episodes", xLabel: "episodes", yLabel: "updates", series, xLog: true, yLog: false, steps: true, whole: true, x: (k) => `${whole(k)} episodes` });
}

function planChart(host, plan, report) {
  const x = plan.history.map((h) => h[0]);
  const series = [
    { name: "upper bound", tone: "var(--c1)", dash: "7 3", x, y: plan.history.map((h) => h[2]) },
    { name: "value of the policy found", tone: "var(--c0)", x, y: plan.history.map((h) => h[1]) },
  ];
  const values = series.flatMap((s) => s.y).filter((y) => y !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = Math.max(1e-6, (high - low) * 0.1);
  new Chart(host, { label: `Bounds over time, ${plan.name}`, xLabel: "seconds", yLabel: inUnits("value", report), series, xLog: false, yLog: false, steps: true, height: 230, yMin: low - room, yMax: high + room, x: (t) => `${short(t)} s` });
}
