// Pictures of where the agent is. Each takes (model, scene) and returns an SVG element.
//
// scene: { at: the entry of the episode, trail: states so far, context: the true one, heat: Float64Array
//          of S numbers in [0, 1] or null, arrows: action by state or null, over: whether it has ended }

const CELL = 60;
const letter = (m) => (m < 26 ? String.fromCharCode(65 + m) : "");

// Contexts get letters where each has marks of its own on the grid.
function lettered(model, m, name = model.context) {
  const marks = model.layout?.marks;
  const own = marks && marks.flat().length === new Set(marks.flat()).size && marks.every((states) => states.length > 0);
  return own ? `${letter(m)}  ${name(m)}` : name(m);
}

function drawWorld(model, scene) {
  if (model.layout) return drawGrid(model, scene);
  return model.places ? drawDiagram(model, scene) : drawNeighbours(model, scene);
}

function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function caption(text) {
  return svg("title", {}, text);
}

function heatFill(model, scene, s) {
  return scene.heat && scene.heat[s] > 0 ? { fill: "var(--heat)", "fill-opacity": 0.07 + 0.6 * scene.heat[s] } : { fill: "var(--paper)" };
}

// ------------------------------------------------------------------ a grid

function drawGrid(model, scene) {
  const [rows, columns] = model.layout.shape;
  const loose = model.layout.positions.map((p, s) => (p[0] < 0 ? s : -1)).filter((s) => s >= 0).slice(0, 8);
  const extra = loose.length ? 1.3 : 0.2;
  const place = (s) => {
    const [r, c] = model.layout.positions[s];
    if (r >= 0) return [(c + 0.5) * CELL, (r + 0.5) * CELL];
    const i = loose.indexOf(s);
    return i < 0 ? null : [(0.9 + 1.9 * i) * CELL, (rows + 0.75) * CELL];
  };
  const picture = svg("svg", { viewBox: `-2 -2 ${columns * CELL + 4} ${(rows + extra) * CELL}`, role: "img", "aria-label": sceneText(model, scene) });
  model.layout.positions.forEach(([r, c], s) => {
    const loosePlace = r < 0 ? place(s) : null;
    if (r < 0 && !loosePlace) return;
    const box = r >= 0 ? { x: c * CELL, y: r * CELL, width: CELL, height: CELL } : { x: loosePlace[0] - 0.85 * CELL, y: loosePlace[1] - 0.36 * CELL, width: 1.7 * CELL, height: 0.72 * CELL, rx: 9 };
    picture.append(svg("rect", { ...box, style: { fill: "var(--paper)", stroke: "var(--line)" } }));
    picture.append(svg("rect", { ...box, style: { ...heatFill(model, scene, s), stroke: "var(--line)" } }, caption(model.state(s))));
    if (r < 0) picture.append(svg("text", { x: loosePlace[0] + 0.32 * CELL, y: loosePlace[1] + 5, "text-anchor": "middle", "font-size": 14, class: "faint" }, clipped(model.brief.state(s), 7)));
  });
  for (const [r, c] of model.layout.walls) picture.append(svg("rect", { x: c * CELL, y: r * CELL, width: CELL, height: CELL, style: { fill: "var(--wall)" } }, caption("wall")));
  const marked = new Set((model.layout.marks ?? []).flat());
  if (scene.arrows) {
    for (let s = 0; s < model.S; s++) {
      if (model.layout.positions[s][0] >= 0 && s !== scene.at.state && !marked.has(s)) drawArrow(picture, place(s), model.layout.directions[scene.arrows[s]], 0.2, "var(--soft)", 1.4, 0.75);
    }
  }
  if (model.layout.marks) drawMarks(picture, model, scene, place);
  drawTrail(picture, scene.trail.map((s) => (place(s) && model.layout.positions[s][0] < 0 ? [place(s)[0] - 0.45 * CELL, place(s)[1]] : place(s))));
  const here = place(scene.at.state);
  if (here) {
    const on = model.layout.positions[scene.at.state][0] >= 0 ? here : [here[0] - 0.45 * CELL, here[1]];
    drawAgent(picture, on, CELL * 0.2);
    if (!scene.over) drawArrow(picture, on, model.layout.directions[scene.at.action], 0.46, "var(--agent)", 4, 1);
  }
  return picture;
}

// Candidate goals fade with the belief; the true one has a ring.
function drawMarks(picture, model, scene, place) {
  const shared = new Map();
  model.layout.marks.forEach((states, m) => states.forEach((s) => shared.set(s, [...(shared.get(s) ?? []), m])));
  for (const [s, contexts] of shared) {
    const spot = place(s);
    if (!spot) continue;
    const belief = scene.at.belief ? contexts.reduce((sum, m) => sum + scene.at.belief[m], 0) : 0;
    const size = CELL * 0.36;
    const diamond = `M${spot[0]} ${spot[1] - size} L${spot[0] + size} ${spot[1]} L${spot[0]} ${spot[1] + size} L${spot[0] - size} ${spot[1]} Z`;
    const name = contexts.map(model.context).join(", ");
    const tone = contexts.length > 1 ? "var(--c6)" : colour(contexts[0]);
    picture.append(svg("path", { d: diamond, style: { fill: "var(--paper)" } }));
    picture.append(svg("path", { d: diamond, style: { fill: tone, "fill-opacity": 0.1 + 0.9 * belief, stroke: tone, "stroke-width": contexts.includes(scene.context) ? 4 : 1.5 } }, caption(`${name}: ${fixed(100 * belief, 1)}%`)));
    picture.append(svg("text", { x: spot[0], y: spot[1] + 6, "text-anchor": "middle", "font-size": 17, "font-weight": 700, style: { fill: belief > 0.55 ? "var(--paper)" : "var(--ink)" } }, contexts.length > 1 ? "★" : letter(contexts[0])));
  }
}

function drawTrail(picture, places) {
  const points = places.filter(Boolean);
  if (points.length < 2) return;
  const shift = (i) => ((i * 7) % 5) - 2; // paths walked twice stay visible
  picture.append(svg("polyline", { points: points.map(([x, y], i) => `${x + 1.6 * shift(i)},${y + 1.6 * shift(i + 2)}`).join(" "), fill: "none", "stroke-width": 3, "stroke-linejoin": "round", "stroke-opacity": 0.5, style: { stroke: "var(--agent)" } }));
}

function drawAgent(picture, [x, y], size) {
  picture.append(svg("circle", { cx: x, cy: y, r: size, "stroke-width": 2.5, class: "agent", style: { fill: "var(--agent)", stroke: "var(--paper)" } }));
}

function drawArrow(picture, [x, y], [dx, dy], reach, tone, width, opacity) {
  if (!dx && !dy) return;
  const [ex, ey] = [x + dx * reach * CELL, y + dy * reach * CELL];
  const [sx, sy] = reach > 0.3 ? [x, y] : [x - dx * reach * CELL, y - dy * reach * CELL];
  const head = width * 2.4;
  const [bx, by] = [ex - dx * head, ey - dy * head];
  const tip = `M${ex} ${ey} L${bx - dy * head * 0.7} ${by + dx * head * 0.7} L${bx + dy * head * 0.7} ${by - dx * head * 0.7} Z`;
  picture.append(svg("line", { x1: sx, y1: sy, x2: bx, y2: by, "stroke-width": width, opacity, style: { stroke: tone } }));
  picture.append(svg("path", { d: tip, opacity, style: { fill: tone } }));
}

// ------------------------------------------------------------------ a diagram of few states

function drawDiagram(model, scene) {
  const used = model.places.map((p, s) => (p[0] === null ? -1 : s)).filter((s) => s >= 0);
  const unit = 86;
  const spot = (s) => [model.places[s][0] * unit, model.places[s][1] * unit];
  const xs = used.map((s) => spot(s)[0]), ys = used.map((s) => spot(s)[1]);
  const [left, right, top, bottom] = [Math.min(...xs) - 62, Math.max(...xs) + 62, Math.min(...ys) - 52, Math.max(...ys) + 58];
  const picture = svg("svg", { viewBox: `${left} ${top} ${right - left} ${bottom - top}`, role: "img", "aria-label": sceneText(model, scene) });
  const now = scene.over ? [] : outcomes(model, scene.at);
  const likely = new Map(now.map((o) => [o.next, o.prob]));
  const edges = diagramEdges(model);
  const crowded = edges.length > 3 * used.length; // then only what can happen now is drawn
  for (const [s, n] of edges) {
    const on = !scene.over && s === scene.at.state && likely.has(n);
    if (on || !crowded || s === scene.at.state) drawEdge(picture, spot(s), spot(n), s === n, on ? "var(--agent)" : "var(--line)", on ? 1.5 + 3.5 * likely.get(n) : 1.2);
  }
  drawTrail(picture, scene.trail.filter((s) => model.places[s][0] !== null).map(spot));
  for (const s of used) {
    const [x, y] = spot(s);
    const here = s === scene.at.state;
    picture.append(svg("circle", { cx: x, cy: y, r: 21, style: { fill: "var(--paper)" } }));
    picture.append(svg("circle", { cx: x, cy: y, r: 21, "stroke-width": here ? 5 : 1.5, style: { ...heatFill(model, scene, s), stroke: here ? "var(--agent)" : "var(--soft)" } }, caption(model.state(s))));
    const name = model.brief.state(s).replace(/^state /, "");
    const inside = name.length <= 4;
    picture.append(svg("text", { x, y: inside ? y + 5 : y + 37, "text-anchor": "middle", class: inside ? "" : "halo", "font-size": inside ? 14 : 12.5, "font-weight": here ? 700 : 400 }, clipped(name, 14)));
    if (likely.has(s)) picture.append(svg("text", { x, y: y - 27, "text-anchor": "middle", class: "halo", "font-size": 12.5, "font-weight": 700, style: { fill: "var(--agent)" } }, `${Math.round(100 * likely.get(s))}%`));
    if (here && !inside) drawAgent(picture, [x, y], 9);
  }
  return picture;
}

function diagramEdges(model) {
  if (model.edges) return model.edges;
  const seen = new Map();
  for (let row = 0; row < model.indptr.length - 1; row++) {
    const s = Math.floor(row / model.A) % model.S;
    if (model.places[s][0] === null) continue;
    for (let i = model.indptr[row]; i < model.indptr[row + 1]; i++) if (model.next[i] !== s) seen.set(s * model.S + model.next[i], [s, model.next[i]]);
  }
  model.edges = [...seen.values()];
  return model.edges;
}

function drawEdge(picture, [x, y], [ex, ey], loop, tone, width) {
  if (loop) return;
  const length = Math.hypot(ex - x, ey - y);
  const [dx, dy] = [(ex - x) / length, (ey - y) / length];
  const bend = 0.1 * length;
  const [sx, sy, tx, ty] = [x + dx * 22, y + dy * 22, ex - dx * 27, ey - dy * 27];
  const [mx, my] = [(x + ex) / 2 - dy * bend, (y + ey) / 2 + dx * bend];
  picture.append(svg("path", { d: `M${sx} ${sy} Q${mx} ${my} ${tx} ${ty}`, fill: "none", "stroke-width": width, style: { stroke: tone } }));
  const [ax, ay] = [tx - mx, ty - my].map((d) => d / Math.hypot(tx - mx, ty - my));
  picture.append(svg("path", { d: `M${tx + ax * 6} ${ty + ay * 6} l${-ax * 9 - ay * 4.5} ${-ay * 9 + ax * 4.5} l${ay * 9} ${-ax * 9} Z`, style: { fill: tone } }));
}

// What the action can lead to now, under the belief: [{ next, prob }], likeliest first.
function outcomes(model, at) {
  const likely = new Map();
  for (let m = 0; m < model.M; m++) {
    const b = at.belief ? at.belief[m] : 0;
    const row = model.row(m, at.t, at.state, at.action);
    if (b > 0) for (let i = model.indptr[row]; i < model.indptr[row + 1]; i++) likely.set(model.next[i], (likely.get(model.next[i]) ?? 0) + b * model.prob[i]);
  }
  return [...likely].map(([next, prob]) => ({ next, prob })).sort((a, b) => b.prob - a.prob);
}

// ------------------------------------------------------------------ the neighbourhood in a large model

function drawNeighbours(model, scene) {
  const [width, height] = [620, 340];
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": sceneText(model, scene) });
  const past = scene.trail.slice(-4, -1);
  const after = scene.over ? [] : outcomes(model, scene.at).slice(0, 7);
  const spots = [...past.map((s, i) => ({ s, x: 60 + 95 * (i + 3 - past.length), y: height / 2, kind: "past" })), { s: scene.at.state, x: 350, y: height / 2, kind: "here" }];
  for (let i = 1; i < spots.length; i++) drawEdge(picture, [spots[i - 1].x, spots[i - 1].y], [spots[i].x, spots[i].y], false, "var(--agent)", 2);
  after.forEach((o, i) => {
    const y = height / 2 + (i - (after.length - 1) / 2) * Math.min(62, (height - 40) / after.length);
    drawEdge(picture, [350, height / 2], [510, y], false, "var(--soft)", 1 + 4 * o.prob);
    spots.push({ s: o.next, x: 510, y, kind: "next", prob: o.prob });
  });
  for (const { s, x, y, kind, prob } of spots) {
    picture.append(svg("circle", { cx: x, cy: y, r: 19, style: { fill: "var(--paper)" } }));
    picture.append(svg("circle", { cx: x, cy: y, r: 19, "stroke-width": kind === "here" ? 5 : 1.5, style: { ...heatFill(model, scene, s), stroke: kind === "here" ? "var(--agent)" : "var(--soft)" } }, caption(model.state(s))));
    picture.append(svg("text", { x, y: y + 4.5, "text-anchor": "middle", "font-size": 12, "font-weight": kind === "here" ? 700 : 400 }, clipped(model.brief.state(s).replace(/^state /, ""), 5)));
    if (prob !== undefined) picture.append(svg("text", { x: x + 28, y: y + 5, "font-size": 13 }, `${fixed(100 * prob, prob < 0.1 ? 1 : 0)}%`));
  }
  picture.append(svg("text", { x: 60, y: 26, "font-size": 13, class: "faint" }, "before"), svg("text", { x: 350, y: 26, "text-anchor": "middle", "font-size": 13, class: "faint" }, "now"), svg("text", { x: 510, y: 26, "text-anchor": "middle", "font-size": 13, class: "faint" }, "may come next"));
  return picture;
}

function sceneText(model, scene) {
  const { at } = scene;
  if (scene.over) return `The episode is over, in ${model.state(at.state)}. ${model.totals[0].toUpperCase()}${model.totals.slice(1)} reward ${short(model.total(at.total, model.H))}.`;
  return `Step ${at.t + 1} of ${model.H}: in ${model.state(at.state)}, playing ${model.action(at.action)}.`;
}
