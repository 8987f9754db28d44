// Episodes and beliefs, computed here from the stored model and policy.

// First index at which the running sum of weights exceeds u times their total.
function pick(weights, u) {
  let total = 0;
  for (const x of weights) total += x;
  let sum = 0, last = 0;
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] > 0) last = i;
    sum += weights[i];
    if (weights[i] > 0 && u * total < sum) return i;
  }
  return last;
}

const total = (weights) => weights.reduce((sum, x) => sum + x, 0);
const normalized = (weights) => { const sum = total(weights); return sum > 0 ? weights.map((x) => x / sum) : null; };

// b_m proportional to w_m nu_m(s): (M) probability of the context and of the first state
function firstWeights(model, s) {
  return model.w.map((w, m) => w * model.nu[m * model.S + s]);
}

// b_m(h a r s') proportional to b_m(h) P_m(s'|s,a) 1[r = R_m(s,a)]: (M), and likewise
function nextWeights(model, belief, t, s, a, next, symbol) {
  return belief.map((b, m) => {
    const row = model.row(m, t, s, a);
    for (let i = model.indptr[row]; i < model.indptr[row + 1]; i++) {
      if (model.next[i] === next && model.symbol[i] === symbol) return b * model.prob[i];
    }
    return 0;
  });
}

function successor(policy, model, node, symbol, next) {
  for (let e = policy.indptr[node]; e < policy.indptr[node + 1]; e++) {
    if (policy.symbol[e] === symbol && policy.next[e] === next) return policy.node[e];
  }
  return policy.default[(policy.step[node] + 1) * model.S + next];
}

// One episode in context m. `overrides` (step -> action) makes the agent deviate; `resume(t, s, belief)`
// says at which node it then goes on. Entry t is before the action of step t; the last one is the end.
// chance: how likely the policy comes to this history; 0 after a deviation.
function playEpisode(model, policy, m, seed, overrides, resume) {
  const draw = uniforms(seed);
  let s = pick(Array.from(model.nu.slice(m * model.S, (m + 1) * model.S)), draw());
  const first = firstWeights(model, s);
  let [belief, chance] = [normalized(first), total(first)];
  let node = policy.root[s];
  let earned = 0, weight = 1;
  const steps = [];
  for (let t = 0; t < model.H; t++) {
    const asked = policy.action[node];
    const action = overrides.has(t) ? overrides.get(t) : asked;
    const row = model.row(m, t, s, action);
    const from = model.indptr[row];
    const i = from + pick(Array.from(model.prob.slice(from, model.indptr[row + 1])), draw());
    const [next, symbol, reward] = [model.next[i], model.symbol[i], model.reward[i]];
    steps.push({ t, state: s, node, belief, chance, asked, action, next, symbol, reward, total: earned });
    earned += weight * reward;
    weight *= model.discount;
    const weights = nextWeights(model, belief, t, s, action, next, symbol);
    [belief, chance] = [normalized(weights), action === asked ? chance * total(weights) : 0];
    if (t + 1 < model.H) node = action === asked ? successor(policy, model, node, symbol, next) : resume(t + 1, next, belief);
    s = next;
  }
  steps.push({ t: model.H, state: s, node: null, belief, chance, total: earned });
  return steps;
}

// Expected visits of each state in an episode of this policy (context null: all, by weight).
function expectedVisits(model, policy, context) {
  const { M, S, H } = model;
  const reach = new Float64Array(policy.N * M);
  for (let m = 0; m < M; m++) {
    const weight = context === null ? model.w[m] : m === context ? 1 : 0;
    for (let s = 0; s < S; s++) reach[policy.root[s] * M + m] += weight * model.nu[m * S + s];
  }
  const visits = new Float64Array(S);
  for (let n = 0; n < policy.N; n++) {
    for (let m = 0; m < M; m++) {
      const here = reach[n * M + m];
      if (here === 0) continue;
      visits[policy.state[n]] += here;
      if (policy.step[n] + 1 === H) continue;
      const row = model.row(m, policy.step[n], policy.state[n], policy.action[n]);
      for (let i = model.indptr[row]; i < model.indptr[row + 1]; i++) {
        reach[successor(policy, model, n, model.symbol[i], model.next[i]) * M + m] += here * model.prob[i];
      }
    }
  }
  return visits;
}
