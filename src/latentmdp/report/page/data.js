// Decoding what report/encode.py wrote. Names are data: they only ever become text nodes.

const WIDTHS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array, q16: Uint16Array };

function decode(packed) {
  if (packed && packed.index !== undefined) {
    const index = decode(packed.index);
    return Float64Array.from(index, (i) => packed.values[i]);
  }
  const at = packed.indexOf(":");
  const kind = packed.slice(0, at);
  const text = atob(packed.slice(at + 1));
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const numbers = new WIDTHS[kind](bytes.buffer);
  return kind === "q16" ? Float64Array.from(numbers, (x) => x / 65535) : numbers;
}

function sums(lengths) {
  const indptr = new Uint32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) indptr[i + 1] = indptr[i] + lengths[i];
  return indptr;
}

// Names without the words that all of them begin with, where pictures have no room for whole ones.
function briefly(name, count) {
  const names = Array.from({ length: count }, (_, i) => name(i));
  if (count < 2 || names.every((x) => x.length <= 14)) return name;
  let same = 0;
  while (names.every((x) => same < x.length && x[same] === names[0][same])) same++;
  const words = names[0].slice(0, same).search(/[^\s_:,/-]*$/); // up to the last whole word
  return words > 5 ? (i) => `…${names[i].slice(words)}` : name;
}

function readModel(data) {
  const name = (names, fallback) => (i) => (names ? names[i] : fallback(i));
  const [scale, shift] = data.userUnits ? [data.rewardScale, data.rewardShift] : [1, 0];
  const weights = (steps) => (data.discount === 1 ? steps : (1 - data.discount ** steps) / (1 - data.discount));
  const allowed = data.allowed ? decode(data.allowed) : null;
  // Of a time-augmented model the page shows the states of the step-dependent one: rows are numbered
  // by step * S + state, next states are without their step, and all episodes start at step 0.
  const numbered = data.S;
  const S = data.statesPerStep ?? numbered;
  const place = (t, s) => (data.statesPerStep === null ? s : t * S + s);
  const reward = decode(data.reward);
  const raw = { nu: decode(data.nu), next: decode(data.next) };
  const state = name(data.statesPerStep === null ? data.stateNames : data.stateNames?.slice(0, S).map((x) => x.replace(/@0$/, "")), (s) => `state ${s}`);
  const action = name(data.actionNames, (a) => `action ${a}`);
  const context = name(data.contextNames, (m) => `context ${m}`);
  return {
    ...data,
    S, numbered, raw, state, action, context,
    brief: { state: briefly(state, S), action: briefly(action, data.A), context: briefly(context, data.M) },
    nu: raw.nu.filter((_, i) => i % numbered < S),
    indptr: sums(decode(data.length)),
    next: raw.next.map((s) => s % S),
    symbol: decode(data.symbol),
    prob: decode(data.prob),
    reward,
    allowed, // 1 or 0 for each (numbered state, action); null: all of them
    available: (t, s, a) => allowed === null || allowed[place(t, s) * data.A + a] === 1,
    row: (m, t, s, a) => (m * numbered + place(t, s)) * data.A + a,
    least: 1e-6 * scale * (reward.reduce((most, x) => Math.max(most, Math.abs(x)), 0) || 1), // the smallest difference that pictures show
    totals: data.discount === 1 ? "total" : "discounted total",
    // what is shown of a reward, of a total after `steps`, and of what is left to earn at step t
    paid: (reward) => scale * reward + shift,
    total: (sum, steps) => scale * sum + shift * weights(steps),
    worth: (value, t) => scale * value + shift * weights(data.H - t),
  };
}

// A policy graph; a Markov policy is stored as its table alone and gets one node per (step, state).
function readPolicy(data, model) {
  const { H, S } = model;
  if (data.table) {
    const ids = Uint32Array.from({ length: H * S }, (_, i) => i);
    const none = new Uint8Array(0);
    return {
      N: H * S, action: decode(data.table), step: ids.map((i) => Math.floor(i / S)), state: ids.map((i) => i % S),
      indptr: new Uint32Array(H * S + 1), symbol: none, next: none, node: none, root: ids.slice(0, S), default: ids, markov: true,
    };
  }
  const policy = { indptr: sums(decode(data.degree)), markov: false };
  for (const part of ["step", "state", "action", "symbol", "next", "node", "root", "default"]) policy[part] = decode(data[part]);
  policy.N = policy.step.length;
  return policy;
}

// The model as a file that `latentmdp.load` reads (docs/formats.md, sparse JSON).
function modelFile(model) {
  const rows = model.indptr.length - 1;
  const perRow = Array.from({ length: rows }, (_, i) => model.reward[model.indptr[i]]);
  const file = {
    format: "latentmdp model", H: model.H, discount: model.discount, observe_rewards: model.observeRewards, w: model.w,
    nu: Array.from({ length: model.M }, (_, m) => Array.from(model.raw.nu.slice(m * model.numbered, (m + 1) * model.numbered))),
    indptr: Array.from(model.indptr), next: Array.from(model.raw.next), prob: Array.from(model.prob),
    reward: model.rewardsOnTransitions ? Array.from(model.reward) : perRow,
    rewards_on_transitions: model.rewardsOnTransitions,
  };
  if (model.allowed) file.allowed = Array.from({ length: model.numbered }, (_, s) => Array.from(model.allowed.slice(s * model.A, (s + 1) * model.A)));
  if (model.returnLimit !== null) file.max_return = model.returnLimit;
  if (model.rewardScale !== 1) file.reward_scale = model.rewardScale;
  if (model.rewardShift !== 0) file.reward_shift = model.rewardShift;
  for (const what of ["state", "action", "context"]) if (model[`${what}Names`]) file[`${what}_names`] = model[`${what}Names`];
  if (model.statesPerStep !== null) file.states_per_step = model.statesPerStep;
  if (model.layout) {
    file.layout_shape = model.layout.shape;
    file.layout_positions = model.layout.positions;
    file.layout_walls = model.layout.walls;
    if (model.layout.marks) file.layout_marks = model.layout.marks.flatMap((states, m) => states.map((s) => [m, s]));
  }
  return JSON.stringify(file);
}
