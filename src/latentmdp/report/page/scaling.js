// Scaling plots: points of all seeds, fitted lines, and the theorem's slope, on logarithmic axes.

const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", "M-3.6 -3.6h7.2v7.2h-7.2Z", "M0 -4.8L4.6 3.4H-4.6Z", "M0 -5L5 0L0 5L-5 0Z", "M0 4.8L4.6 -3.4H-4.6Z"];

function dot(shape, x, y, tone) {
  return svg("path", { d: SHAPES[shape % SHAPES.length], transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, style: { fill: tone, "fill-opacity": 0.75 } });
}

function scalingChart(host, panel) {
  const series = panel.series.map((s) => ({
    ...s, name: s.exponent === null ? s.name : `${s.name}, exponent ${fixed(s.exponent, 2).replace(/^-(?=.*[1-9])/, "−").replace("-", "")}`, tone: colour(s.number), shape: s.number,
  }));
  const places = [...new Set(series.flatMap((s) => s.x))].sort((a, b) => a - b);
  if (!places.length) return;
  if (panel.reference) series.push({ name: `theorem's slope ${short(panel.reference.slope)}`, tone: "var(--soft)", dash: "5 4", thin: true, ...panel.reference.line });
  new Chart(host, { label: `Regret by ${panel.label}, geometric means over seeds`, xLabel: panel.parameter, yLabel: "regret", series, xLog: true, yLog: true, height: 300, places, x: (size) => `${panel.parameter} = ${short(size)}` });
}
