// Axes: from values to places, and where the ticks go.

function makeScale(low, high, from, to, log) {
  const f = log ? Math.log10 : (x) => x;
  let [a, b] = [f(low), f(high)];
  if (!(b > a)) b = a + 1;
  const place = (x) => from + ((f(x) - a) / (b - a)) * (to - from);
  place.invert = (p) => {
    const y = a + ((p - from) / (to - from)) * (b - a);
    return log ? 10 ** y : y;
  };
  place.ticks = log ? logTicks(a, b, Math.abs(to - from)) : linearTicks(a, b, Math.abs(to - from));
  place.low = low;
  place.high = high;
  return place;
}

function logTicks(a, b, room) {
  const every = Math.max(1, Math.ceil((b - a) / Math.max(2, room / 55)));
  const ticks = [];
  for (let p = Math.ceil(a - 1e-9); p <= b + 1e-9; p++) if (p % every === 0) ticks.push(10 ** p);
  return ticks;
}

function linearTicks(a, b, room) {
  const rough = (b - a) / Math.max(2, room / 70);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((k) => k * unit >= rough);
  const ticks = [];
  for (let i = Math.ceil(a / step - 1e-9); i * step <= b + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
}

// Value of a curve between its points: straight lines, or steps that hold until the next point.
function valueAt(xs, ys, x, steps) {
  if (x < xs[0] || x > xs[xs.length - 1]) return null;
  let lo = 0, hi = xs.length - 1;
  while (hi - lo > 1) {
    const mid = (lo + hi) >> 1;
    if (xs[mid] <= x) lo = mid;
    else hi = mid;
  }
  if (xs[hi] <= x) return ys[hi];
  if (steps || ys[lo] === null || ys[hi] === null) return ys[lo];
  return ys[lo] + ((ys[hi] - ys[lo]) * (x - xs[lo])) / (xs[hi] - xs[lo]);
}

// 1, 10, 100, ... and the last one itself.
function powersUpTo(last) {
  const powers = [];
  for (let k = 1; k < last; k *= 10) powers.push(k);
  return [...powers, last];
}
