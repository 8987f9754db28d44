// A line chart: logarithmic or linear axes, bands, a legend that switches lines, values under the
// pointer or, with the arrow keys, under the cursor.
//
// options: { label, xLabel, yLabel, series, xLog, yLog, steps, height, yMin, yMax, x: how to write it,
//            whole: x are whole numbers }
// series: { name, tone, dash, x, y, low, high, upper, thin, off, mark } (low, high: a band over seeds;
//         upper: the truth lies between y and it; mark: one point with a symbol)

class Chart {
  constructor(host, options) {
    this.host = host;
    this.options = options;
    this.hidden = new Set(options.series.filter((s) => s.off).map((s) => s.name));
    this.cursor = null;
    this.legend = element("div", { class: "legend", role: "group", "aria-label": "Lines shown" });
    this.picture = element("div", { class: "chart" });
    this.tip = element("div", { class: "tip", hidden: true });
    this.said = element("p", { class: "unseen", "aria-live": "polite" });
    this.missing = element("p", { class: "small soft" });
    host.append(this.legend, this.picture, this.missing, this.said, this.asTable());
    this.drawLegend();
    this.draw();
    new ResizeObserver(() => {
      if (this.picture.clientWidth !== this.width) this.draw();
    }).observe(this.picture);
  }

  set(options) {
    Object.assign(this.options, options);
    this.draw();
  }

  // Whether these axes can show anything of it: 0 has no logarithm.
  usable(s) {
    const { yLog, xLog } = this.options;
    return s.y.some((y, i) => y !== null && (!yLog || y > 0) && (!xLog || s.x[i] > 0));
  }

  get wanted() {
    return this.options.series.filter((s) => !this.hidden.has(s.name));
  }

  get shown() {
    return this.wanted.filter((s) => this.usable(s));
  }

  drawLegend() {
    this.legend.replaceChildren(...this.options.series.map((s) => {
      const sample = s.mark
        ? svg("path", { d: "M13 0 L18 5 L13 10 L8 5 Z", style: { fill: s.tone } })
        : svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, "stroke-width": s.thin ? 1.5 : 2.6, "stroke-dasharray": s.dash, style: { stroke: s.tone } });
      const key = svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, sample);
      const press = (event) => {
        if (this.hidden.has(s.name)) this.hidden.delete(s.name);
        else this.hidden.add(s.name);
        event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(s.name)));
        this.draw();
      };
      return element("button", { type: "button", "aria-pressed": String(!this.hidden.has(s.name)), onclick: press }, key, s.name);
    }));
  }

  draw() {
    const { xLog, yLog, label, xLabel, yLabel } = this.options;
    this.width = Math.max(280, this.picture.clientWidth || 640);
    this.height = this.options.height ?? (this.width < 520 ? 270 : 360);
    const [left, right, top, bottom] = [this.width < 520 ? 54 : 66, 30, 22, 42];
    const positive = (x, log) => x !== null && (!log || x > 0);
    const xs = this.shown.flatMap((s) => s.x).filter((x) => positive(x, xLog));
    const ys = this.shown.flatMap((s) => [s.y, s.low ?? [], s.high ?? [], s.upper ?? []].flat()).filter((y) => positive(y, yLog));
    const least = (values, otherwise) => values.reduce((a, b) => Math.min(a, b), values.length ? Infinity : otherwise);
    const most = (values, otherwise) => values.reduce((a, b) => Math.max(a, b), values.length ? -Infinity : otherwise);
    let [low, high] = [least(ys, yLog ? 0.1 : 0), most(ys, 1)];
    if (yLog) [low, high] = [10 ** Math.floor(Math.log10(low) + 1e-9), 10 ** Math.ceil(Math.log10(high) - 1e-9)];
    else [low, high] = [this.options.yMin ?? Math.min(0, low), this.options.yMax ?? high * 1.04];
    this.x = makeScale(xLog ? least(xs, 1) : Math.min(0, least(xs, 0)), most(xs, 10), left, this.width - right, xLog);
    this.y = makeScale(low, high, this.height - bottom, top, yLog);

    const picture = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, role: "img", tabindex: 0, "aria-label": `${label}. ${this.ends()} Arrow keys read values.` });
    for (const tick of this.y.ticks) {
      picture.append(svg("line", { class: "gridline", x1: left, x2: this.width - right, y1: this.y(tick), y2: this.y(tick) }));
      picture.append(svg("text", { x: left - 8, y: this.y(tick) + 4, "text-anchor": "end" }, short(+tick.toPrecision(12))));
    }
    for (const tick of this.x.ticks) {
      picture.append(svg("line", { class: "gridline", x1: this.x(tick), x2: this.x(tick), y1: top, y2: this.height - bottom }));
      picture.append(svg("text", { x: this.x(tick), y: this.height - bottom + 18, "text-anchor": "middle" }, short(+tick.toPrecision(12))));
    }
    picture.append(svg("line", { class: "axis", x1: left, x2: this.width - right, y1: this.height - bottom, y2: this.height - bottom }));
    picture.append(svg("text", { x: (left + this.width - right) / 2, y: this.height - 6, "text-anchor": "middle" }, xLabel));
    picture.append(svg("text", { x: left, y: 11, "text-anchor": "start" }, yLabel));
    for (const s of this.shown) this.drawSeries(picture, s);
    this.overlay = svg("g", {});
    picture.append(this.overlay);
    picture.addEventListener("pointermove", (event) => this.point(event));
    picture.addEventListener("pointerdown", (event) => this.point(event));
    picture.addEventListener("pointerleave", () => this.leave());
    picture.addEventListener("blur", () => this.leave());
    picture.addEventListener("keydown", (event) => this.key(event));
    const focused = document.activeElement === this.svg;
    this.svg = picture;
    this.picture.replaceChildren(picture, this.tip);
    if (focused) picture.focus();
    this.tip.hidden = true;
    const zero = this.wanted.filter((s) => !this.usable(s)).map((s) => s.name);
    this.missing.hidden = !zero.length;
    this.missing.textContent = `Not above 0 anywhere, so not on logarithmic axes: ${zero.join("; ")}.`;
  }

  drawSeries(picture, s) {
    const { yLog, xLog } = this.options;
    const ok = (i, y) => y !== null && (!yLog || y > 0) && (!xLog || s.x[i] > 0);
    const points = (ys) => s.x.map((x, i) => (ok(i, ys[i]) ? [this.x(x), this.y(ys[i])] : null)).filter(Boolean);
    if (s.mark) {
      const [x, y] = points(s.y)[0];
      picture.append(svg("path", { d: `M${x} ${y - 7} l7 7 l-7 7 l-7 -7 Z`, style: { fill: s.tone } }));
      return;
    }
    const floor = yLog ? this.y.low : null;
    const shade = (low, high, opacity, kind) => {
      const lows = low.map((y) => (y === null ? null : floor === null ? y : Math.max(y, floor)));
      const outline = [...points(high), ...points(lows).reverse()];
      picture.append(svg("polygon", { class: kind, points: outline.map((p) => p.map((c) => c.toFixed(1)).join()).join(" "), style: { fill: s.tone, opacity } }));
    };
    if (s.upper) shade(s.y, s.upper, 0.09, "bracket");
    if (s.low) shade(s.low, s.high, 0.16, "seeds");
    const line = points(s.y);
    if (line.length === 1) picture.append(svg("circle", { cx: line[0][0], cy: line[0][1], r: 4, style: { fill: s.tone } }));
    let path = "";
    line.forEach(([x, y], i) => {
      if (i === 0) path += `M${x.toFixed(1)} ${y.toFixed(1)}`;
      else path += this.options.steps && !s.thin ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `L${x.toFixed(1)} ${y.toFixed(1)}`;
    });
    picture.append(svg("path", { d: path, fill: "none", "stroke-width": s.thin ? 1.4 : 2.4, "stroke-linejoin": "round", "stroke-dasharray": s.dash, style: { stroke: s.tone } }));
  }

  // One sentence with the last values, for those who do not see the picture.
  ends() {
    return this.shown.slice(0, 8).map((s) => `${s.name}: ${this.written(s, s.x[s.x.length - 1], s.y[s.y.length - 1])}.`).join(" ");
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * this.width;
    this.read(this.x.invert(place));
  }

  key(event) {
    const grid = (this.shown[0] ?? { x: [] }).x;
    const at = this.cursor === null ? grid.length - 1 : Math.max(0, grid.findIndex((x) => x >= this.cursor));
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: grid.length - 1, PageUp: at - 15, PageDown: at + 15 }[event.key];
    if (event.key === "Escape") this.leave();
    if (to === undefined || !grid.length) return;
    event.preventDefault();
    this.read(grid[Math.min(grid.length - 1, Math.max(0, to))]);
    this.said.textContent = this.tip.innerText;
  }

  read(x) {
    x = Math.min(this.x.high, Math.max(this.x.low, x));
    if (this.options.whole) x = Math.round(x);
    this.cursor = x;
    const write = this.options.x ?? short;
    const rows = this.shown.map((s) => ({ s, y: this.valueOf(s, x) }));
    const found = rows.filter((r) => r.y !== null).sort((a, b) => b.y - a.y).slice(0, 12);
    this.overlay.replaceChildren(svg("line", { class: "cursor", x1: this.x(x), x2: this.x(x), y1: this.y(this.y.high), y2: this.y(this.y.low) }));
    for (const { s, y } of found) {
      if (s.mark || (this.options.yLog && y <= 0)) continue;
      this.overlay.append(svg("circle", { cx: this.x(x), cy: this.y(y), r: 3.6, style: { fill: s.tone } }));
    }
    const band = (s) => {
      if (!s.low) return "";
      return ` (${short(valueAt(s.x, s.low, x, false))} – ${short(valueAt(s.x, s.high, x, false))})`;
    };
    this.tip.replaceChildren(element("b", {}, write(x)), ...found.map(({ s, y }) =>
      element("div", {}, element("span", {}, element("i", { style: { background: s.tone } }), s.name), element("span", {}, this.written(s, this.cursor, y) + band(s)))));
    this.tip.hidden = false;
    const scale = this.picture.clientWidth / this.width;
    const right = this.x(x) * scale > this.picture.clientWidth / 2;
    this.tip.style.left = right ? "" : `${this.x(x) * scale + 12}px`;
    this.tip.style.right = right ? `${this.picture.clientWidth - this.x(x) * scale + 12}px` : "";
    this.tip.style.top = "12px";
  }

  // A value, and the other end of its bracket where there is one.
  written(s, x, y) {
    const upper = s.upper ? valueAt(s.x, s.upper, x, false) : null;
    return upper === null || short(upper) === short(y) ? short(y) : `${short(y)} to ${short(upper)}`;
  }

  valueOf(s, x) {
    if (s.mark) return s.y[0];
    return valueAt(s.x, s.y, x, this.options.steps && !s.thin);
  }

  leave() {
    this.cursor = null;
    this.tip.hidden = true;
    this.overlay.replaceChildren();
  }

  asTable() {
    const series = this.options.series.slice(0, 12);
    const last = Math.max(...series.map((s) => s.x[s.x.length - 1]));
    const marks = this.options.whole ? powersUpTo(last) : [0, 1, 2, 3, 4].map((i) => (i * last) / 4);
    const write = this.options.x ?? short;
    const head = element("tr", {}, element("th", { scope: "col" }, this.options.xLabel), ...series.map((s) => element("th", { scope: "col", class: "number" }, s.name)));
    const rows = marks.map((x) => element("tr", {}, element("th", { scope: "row" }, write(x)), ...series.map((s) =>
      element("td", { class: "number" }, s.mark && x !== s.x[0] ? short(null) : this.written(s, x, this.valueOf(s, x))))));
    const table = element("table", {}, element("caption", { class: "unseen" }, this.options.label), element("thead", {}, head), element("tbody", {}, ...rows));
    return element("details", {}, element("summary", { class: "small" }, "The same as a table"), element("div", { class: "scroll", tabindex: 0 }, table));
  }
}
