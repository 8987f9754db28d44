// The episode explorer: choose a policy, a true context and a seed; step or play through.

class Explorer {
  constructor(host, report) {
    this.host = host;
    this.sources = report.sources;
    this.models = report.models.map(readModel);
    this.choice = { source: 0, phase: null, context: 0, seed: 1, step: 0 };
    this.heatKind = "known";
    this.overrides = new Map();
    this.cache = new Map();
    this.timer = null;
    this.build();
    this.chooseSource(0);
  }

  // ---------------------------------------------------------------- the parts of the page

  build() {
    const id = (name) => `explore-${name}`;
    const labelled = (name, text, control) => element("div", {}, element("label", { for: id(name) }, text), control);
    this.sourceSelect = element("select", { id: id("source"), onchange: () => this.chooseSource(+this.sourceSelect.value) }, ...this.sources.map((s, i) => element("option", { value: i }, s.name)));
    this.phaseRange = element("input", { id: id("phase"), type: "range", min: 0, step: 1, oninput: () => this.change({ phase: +this.phaseRange.value }) });
    this.contextSelect = element("select", { id: id("context"), onchange: () => this.change({ context: +this.contextSelect.value }) });
    this.seedInput = element("input", { id: id("seed"), type: "number", min: 0, max: 4294967295, step: 1, value: 1, onchange: () => this.change({ seed: Math.max(0, Math.floor(+this.seedInput.value || 0)) }) });
    this.phaseLabel = element("label", { for: id("phase") }, "policy");
    this.phaseText = element("p", { class: "phase-text" });
    const another = element("button", { type: "button", id: id("another"), title: "Another seed (n)", onclick: () => this.another() }, "another");
    const choose = element("div", { class: "choose" },
      labelled("source", "whose policy", this.sourceSelect),
      element("div", {}, this.phaseLabel, this.phaseRange),
      labelled("context", "true context (hidden from the agent)", this.contextSelect),
      element("div", {}, element("label", { for: id("seed") }, "seed"), element("div", { class: "seed" }, this.seedInput, another)),
      this.phaseText);

    this.picture = element("div", { class: "picture" });
    this.heatSelect = element("select", { id: id("heat"), onchange: () => { this.heatKind = this.heatSelect.value; this.draw(); } });
    this.heatKey = element("span", { class: "key" });
    this.world = element("div", { class: "world", tabindex: 0, role: "group", "aria-label": "Episode: arrow keys step, space plays, page up and down change the policy" },
      this.picture, element("div", { class: "tools small" }, element("label", { for: id("heat") }, "shade: "), this.heatSelect, this.heatKey));

    this.now = element("p", { class: "now", "aria-live": "polite" });
    this.bars = element("div", { class: "beliefs", role: "group", "aria-label": "Belief over contexts" });
    this.strip = element("div", { class: "strip" });
    this.actions = element("div", { class: "actions", role: "group", "aria-label": "Actions and what each is worth" });
    this.actionKey = element("p", { class: "small soft" });
    const side = element("div", { class: "side" }, this.now,
      element("div", {}, element("h3", {}, "What it believes"), this.bars, this.strip, element("p", { class: "small soft strip-words" }, "the belief over the whole episode; click to go there")),
      element("div", {}, element("h3", {}, "What it can do"), this.actions, this.actionKey));

    const button = (name, text, label, act, kind) => element("button", { type: "button", id: id(name), "aria-label": label, title: label, class: kind, onclick: act }, text);
    this.playButton = button("play", "", "Play (space)", () => this.toggle(), "main");
    this.showPlaying(false);
    this.stepRange = element("input", { id: id("step"), type: "range", min: 0, step: 1, "aria-label": "step", oninput: () => this.goTo(+this.stepRange.value) });
    this.stepText = element("output", { class: "small", for: id("step") });
    const transport = element("div", { class: "transport" },
      element("div", { class: "buttons" }, button("first", icon("first"), "First step (home)", () => this.goTo(0)), button("back", icon("back"), "Back (left arrow)", () => this.goTo(this.choice.step - 1)),
        this.playButton, button("forward", icon("forward"), "Forward (right arrow)", () => this.goTo(this.choice.step + 1)), button("last", icon("last"), "Last step (end)", () => this.goTo(Infinity))),
      this.stepRange, this.stepText);
    this.transcript = element("tbody");
    const columns = ["step", "state", "action", "reward", "next state", "belief after it"];
    const under = element("details", { class: "under" }, element("summary", { class: "small" }, "The episode as a table"),
      element("div", { class: "scroll", tabindex: 0 }, element("table", { id: id("transcript") }, element("thead", {}, element("tr", {}, ...columns.map((c) => element("th", { scope: "col" }, c)))), this.transcript)));
    const box = element("div", { class: "explorer", id: id("box") }, choose, element("div", { class: "stage" }, this.world, side), transport, under);
    box.addEventListener("keydown", (event) => this.key(event));
    this.host.append(box);
  }

  key(event) {
    const tag = event.target.tagName;
    if (tag === "SELECT" || tag === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (tag === "BUTTON" && (event.key === " " || event.key === "Enter")) return;
    const act = {
      ArrowRight: () => this.goTo(this.choice.step + 1), ArrowLeft: () => this.goTo(this.choice.step - 1),
      Home: () => this.goTo(0), End: () => this.goTo(Infinity), " ": () => this.toggle(), n: () => this.another(),
      PageUp: () => this.change({ phase: this.choice.phase - 1 }), PageDown: () => this.change({ phase: this.choice.phase + 1 }),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  // ---------------------------------------------------------------- choices

  get source() { return this.sources[this.choice.source]; }
  get model() { return this.models[this.source.model]; }
  get phase() { return this.source.phases[this.choice.phase]; }

  chooseSource(i) {
    const before = this.choice.phase === null ? null : this.model;
    const last = this.sources[i].phases.length - 1;
    const share = this.choice.phase === null ? 1 : this.choice.phase / Math.max(1, this.source.phases.length - 1);
    this.choice.source = i;
    if (this.model !== before) {
      const possible = this.model.w.map((w, m) => [w, m]).filter(([w]) => w > 0);
      this.contextSelect.replaceChildren(...possible.map(([w, m]) => element("option", { value: m }, `${lettered(this.model, m)} (${short(+(100 * w).toPrecision(3))}%)`)));
      this.choice.context = possible[0][1];
    }
    this.phaseRange.max = last;
    this.phaseRange.disabled = last === 0;
    this.change({ phase: Math.round(share * last) });
  }

  change(changes) {
    Object.assign(this.choice, changes);
    this.choice.phase = Math.min(this.source.phases.length - 1, Math.max(0, this.choice.phase));
    this.overrides.clear();
    this.replay();
  }

  another() {
    this.seedInput.value = this.choice.seed + 1;
    this.choice.step = 0;
    this.change({ seed: this.choice.seed + 1 });
  }

  replay() {
    this.prepared = this.prepare();
    this.play();
    this.stepRange.max = this.model.H;
    this.phaseRange.value = this.choice.phase;
    this.contextSelect.value = this.choice.context;
    this.describePhase();
    this.offerHeat();
    this.goTo(Math.min(this.choice.step, this.model.H));
    this.writeTranscript();
  }

  play() {
    const { model, prepared } = this;
    this.episode = playEpisode(model, prepared.policy, this.choice.context, this.choice.seed, this.overrides, resumption(model, prepared));
  }

  // Everything that is computed once per policy.
  prepare() {
    const key = `${this.choice.source}/${this.choice.phase}`;
    if (!this.cache.has(key)) {
      if (this.cache.size > 24) this.cache.clear();
      const policy = readPolicy(this.phase.policy, this.model);
      this.cache.set(key, {
        ...valueTables(this.model, policy, this.phase.value), hoped: this.phase.hoped ? decode(this.phase.hoped) : null,
        powers: this.phase.visits ? decode(this.phase.visits) : null, visits: new Map(),
      });
    }
    return this.cache.get(key);
  }

  describePhase() {
    const { source, phase } = this;
    const parts = [];
    this.phaseLabel.textContent = source.phases.length > 1 ? `policy ${whole(phase.number + 1)} of ${whole(source.total)}` : "policy";
    if (phase.length === 0) parts.push(`chosen after the last episode, for episode ${whole(phase.episode)}`);
    else if (phase.episode !== undefined) parts.push(phase.length === 1 ? `in force for episode ${whole(phase.episode)} alone` : `in force for episodes ${whole(phase.episode)} to ${whole(phase.episode + phase.length - 1)}`);
    parts.push(`worth ${fixed(this.model.worth(phase.value, 0), 4)} per episode${source.by ?? ""}`);
    if (source.best !== null) parts[parts.length - 1] += ` (best known ${fixed(source.best, 4)})`;
    if (phase.optimistic !== undefined) parts.push(`hoped for ${fixed(this.model.worth(phase.optimistic, 0), 4)}`);
    this.phaseText.textContent = `${parts.join("; ")}.`;
    this.phaseRange.setAttribute("aria-valuetext", `${this.phaseLabel.textContent}, ${this.phaseText.textContent}`);
  }

  offerHeat() {
    const kinds = shadeKinds(this.prepared);
    if (!kinds.some(([kind]) => kind === this.heatKind)) this.heatKind = "route";
    this.heatSelect.replaceChildren(...kinds.map(([kind, text]) => element("option", { value: kind, selected: kind === this.heatKind }, text)));
  }

  heat() {
    const { values, text } = shade(this.heatKind, this.model, this.prepared, this.choice);
    const sample = element("i", { style: { background: "linear-gradient(90deg, var(--paper), var(--heat))", border: "1px solid var(--line)", width: "3rem" } });
    this.heatKey.replaceChildren(...(values ? [sample, text] : []));
    return values;
  }

  // ---------------------------------------------------------------- time

  goTo(step) {
    this.choice.step = Math.min(this.model.H, Math.max(0, step));
    this.draw();
  }

  toggle() {
    if (this.timer !== null) return this.pause();
    if (this.choice.step >= this.model.H) this.goTo(0);
    this.showPlaying(true);
    this.now.setAttribute("aria-live", "off");
    this.timer = setInterval(() => {
      this.goTo(this.choice.step + 1);
      if (this.choice.step >= this.model.H) this.pause();
    }, 550);
  }

  showPlaying(playing) {
    const name = playing ? "Pause" : "Play";
    this.playButton.replaceChildren(icon(playing ? "pause" : "forward"), ` ${name}`);
    this.playButton.setAttribute("aria-label", `${name} (space)`);
    this.playButton.title = `${name} (space)`;
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.showPlaying(false);
    this.now.setAttribute("aria-live", "polite");
  }

  // ---------------------------------------------------------------- drawing

  draw() {
    const { model, choice } = this;
    const at = this.episode[choice.step];
    const over = choice.step === model.H;
    this.stepRange.value = choice.step;
    this.stepRange.setAttribute("aria-valuetext", `step ${choice.step} of ${model.H}`);
    this.stepText.textContent = `step ${choice.step} of ${model.H}, ${model.totals} reward ${short(model.total(at.total, choice.step))}`;
    const trail = this.episode.slice(0, choice.step + 1).map((entry) => entry.state);
    const arrows = this.prepared.policy.markov && !over ? Array.from({ length: model.S }, (_, s) => this.prepared.policy.action[this.prepared.policy.default[choice.step * model.S + s]]) : null;
    const scene = { at, trail, context: choice.context, heat: this.heat(), arrows, over };
    this.picture.replaceChildren(drawWorld(model, scene));
    this.say(at, over);
    this.drawBeliefs(at);
    this.drawStrip();
    this.drawActions(at, over);
    for (const row of this.transcript.children) row.style.background = +row.dataset.step === choice.step - 1 ? "var(--accent-soft)" : "";
  }

  say(at, over) {
    const { model } = this;
    const before = this.choice.step > 0 ? this.episode[this.choice.step - 1] : null;
    const parts = [];
    if (before) parts.push(`It played ${model.action(before.action)}${model.paid(before.reward) !== 0 ? ` and earned ${short(model.paid(before.reward))}${model.observeRewards ? "" : " (which it does not see)"}` : ""}, and is in ${model.state(at.state)}.`);
    else parts.push(`It starts in ${model.state(at.state)}.`);
    if (over) parts.push(`The episode is over: ${model.totals} ${short(model.total(at.total, model.H))}. The true context was ${model.context(this.choice.context)}.`);
    else parts.push(`It chooses ${model.action(at.action)}${this.overrides.has(at.t) ? ", because you said so" : ""}.`);
    this.now.textContent = parts.join(" ");
  }

  drawBeliefs(at) {
    const { model } = this;
    const belief = at.belief ?? new Array(model.M).fill(0);
    if (this.bars.children.length !== model.M || this.barModel !== model) {
      this.barModel = model;
      this.bars.replaceChildren(...belief.map((_, m) => element("div", { class: "belief", style: { "--tone": colour(m) } },
        element("span", { class: "who" }), element("div", { class: "bar", role: "meter", "aria-valuemin": 0, "aria-valuemax": 1 }, element("span")), element("output"))));
    }
    [...this.bars.children].forEach((row, m) => {
      const [who, bar, number] = row.children;
      const name = lettered(model, m, model.brief.context);
      const real = m === this.choice.context;
      row.classList.toggle("true", real);
      row.dataset.belief = belief[m];
      who.textContent = real ? `★ ${name}` : name;
      who.title = real ? `${model.context(m)}: the true context` : model.context(m);
      bar.setAttribute("aria-label", real ? `${model.context(m)}, the true context` : model.context(m));
      bar.setAttribute("aria-valuenow", belief[m]);
      bar.firstChild.style.width = `${100 * belief[m]}%`;
      number.textContent = `${fixed(100 * belief[m], 1)}%`;
    });
  }

  // Belief over the whole episode, stacked; what is still to come is faint.
  drawStrip() {
    const { model } = this;
    const [width, height] = [600, 64];
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "Belief over the steps of this episode, stacked" });
    const x = (t) => (t / model.H) * width;
    const below = new Array(this.episode.length).fill(0);
    for (let m = 0; m < model.M; m++) {
      const base = below.slice();
      this.episode.forEach((entry, t) => { below[t] += entry.belief ? entry.belief[m] : 0; });
      if (below.every((b, t) => b - base[t] < 1e-12)) continue;
      const up = below.map((b, t) => `${x(t)},${(height * (1 - b)).toFixed(2)}`);
      const down = base.map((b, t) => `${x(t)},${(height * (1 - b)).toFixed(2)}`).reverse();
      picture.append(svg("polygon", { points: [...up, ...down].join(" "), style: { fill: colour(m), opacity: 0.85 } }, caption(model.context(m))));
    }
    const now = x(this.choice.step);
    picture.append(svg("rect", { x: now, y: 0, width: width - now, height, style: { fill: "var(--paper)", opacity: 0.72 } }));
    picture.append(svg("line", { x1: now, x2: now, y1: 0, y2: height, "stroke-width": 2, style: { stroke: "var(--ink)" } }));
    picture.addEventListener("click", (event) => {
      const box = picture.getBoundingClientRect();
      this.goTo(Math.round(((event.clientX - box.left) / box.width) * model.H));
    });
    this.strip.replaceChildren(picture);
  }

  drawActions(at, over) {
    const { model, prepared } = this;
    if (over) {
      this.actions.replaceChildren(element("p", { class: "soft" }, "Nothing more: the episode is over."));
      this.actionKey.textContent = "";
      return;
    }
    const ranges = actionRanges(model, prepared, at);
    const hope = (a) => at.belief.reduce((sum, b, m) => sum + b * prepared.hoped[(at.node * model.M + m) * model.A + a], 0);
    const worth = (value) => (value === null ? null : model.worth(value, at.t));
    const { rows, keys } = actionBars(ranges.map(({ lower, upper }, a) => ({
      name: model.action(a), brief: model.brief.action(a), available: model.available(at.t, at.state, a), policys: a === at.asked, chosen: a === at.action,
      lower: worth(lower), upper: worth(upper), hoped: prepared.hoped ? worth(hope(a)) : null, act: () => this.deviate(at.t, a),
    })), { least: model.least, markov: prepared.policy.markov, unit: model.worth(1, at.t), discount: model.discount });
    this.actions.replaceChildren(...rows);
    this.actionKey.replaceChildren(...keys, element("span", { class: "key" }, "Click an action to see what it would have led to."));
  }

  deviate(t, action) {
    for (const later of [...this.overrides.keys()]) if (later >= t) this.overrides.delete(later);
    if (action !== this.prepared.policy.action[this.episode[t].node]) this.overrides.set(t, action);
    this.play();
    this.writeTranscript();
    this.goTo(t);
    [...this.actions.children][action]?.focus();
  }

  // ---------------------------------------------------------------- words and tables

  writeTranscript() {
    const { model } = this;
    this.transcript.replaceChildren(...this.episode.slice(0, -1).map((entry, t) => {
      const after = this.episode[t + 1].belief;
      const best = after ? after.indexOf(Math.max(...after)) : -1;
      const row = element("tr", { "data-step": t, "data-state": entry.state, "data-action": entry.action, "data-next": entry.next, "data-symbol": entry.symbol, "data-reward": entry.reward, "data-belief": JSON.stringify(Array.from(after ?? [])) },
        element("td", {}, String(t + 1)), element("td", { class: "name" }, model.state(entry.state)), element("td", { class: "name" }, model.action(entry.action)),
        element("td", { class: "number" }, short(model.paid(entry.reward))), element("td", { class: "name" }, model.state(entry.next)), element("td", { class: "name" }, best < 0 ? "–" : `${model.context(best)} ${fixed(100 * after[best], 1)}%`));
      return row;
    }));
  }
}
