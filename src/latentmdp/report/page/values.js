// What actions are worth under a belief, computed here from the stored model and policy.

const MOST_NUMBERS = 4e6; // of one table of values
const MOST_WORK = 2e8; // outcomes looked at for one table of values

// What the values of a policy need: tables of its nodes and of the model. `slack` is what the policy
// misses of the optimum at most; null if that is unknown.
function valueTables(model, policy, value) {
  if (model.known === undefined) model.known = knownValues(model);
  return {
    policy, alpha: alphaVectors(model, policy), known: model.known, places: nodesByPlace(model, policy),
    slack: model.optimum === null ? null : Math.max(0, model.optimum - value),
  };
}

// alpha (N x M): expected remaining reward at each node in each context; null if it would be too
// large. Nodes are sorted by step.
function alphaVectors(model, policy) {
  const { M, H } = model;
  if (policy.N * M > MOST_NUMBERS) return null;
  const alpha = new Float64Array(policy.N * M);
  for (let n = policy.N - 1; n >= 0; n--) {
    for (let m = 0; m < M; m++) {
      const row = model.row(m, policy.step[n], policy.state[n], policy.action[n]);
      let sum = 0;
      for (let i = model.indptr[row]; i < model.indptr[row + 1]; i++) {
        const later = policy.step[n] + 1 < H ? alpha[successor(policy, model, n, model.symbol[i], model.next[i]) * M + m] : 0;
        sum += model.prob[i] * (model.reward[i] + model.discount * later);
      }
      alpha[n * M + m] = sum;
    }
  }
  return alpha;
}

// known ((H + 1) x S x M): the most that can be earned from a step and state on by those who know
// the context; null if it would be too large.
function knownValues(model) {
  const { M, S, A, H } = model;
  const outcomes = (model.next.length / (model.numbered / S)) * H;
  if ((H + 1) * S * M > MOST_NUMBERS || outcomes > MOST_WORK) return null;
  const known = new Float64Array((H + 1) * S * M);
  for (let t = H - 1; t >= 0; t--) {
    for (let s = 0; s < S; s++) {
      for (let m = 0; m < M; m++) {
        let best = -Infinity;
        for (let a = 0; a < A; a++) {
          const row = model.row(m, t, s, a);
          let sum = 0;
          for (let i = model.indptr[row]; i < model.indptr[row + 1]; i++) {
            sum += model.prob[i] * (model.reward[i] + model.discount * known[((t + 1) * S + model.next[i]) * M + m]);
          }
          best = Math.max(best, sum);
        }
        known[(t * S + s) * M + m] = best;
      }
    }
  }
  return known;
}

// Nodes by step * S + state.
function nodesByPlace(model, policy) {
  const nodes = Array.from({ length: model.H * model.S }, () => []);
  for (let n = 0; n < policy.N; n++) nodes[policy.step[n] * model.S + policy.state[n]].push(n);
  return nodes;
}

// The node at step t in state s from which the policy earns most under a belief (of any total), and
// what it earns: every node is a continuation that can be followed from there, whatever came before.
function bestContinuation(model, { alpha, places }, t, s, belief) {
  let [best, value] = [null, -Infinity];
  for (const n of places[t * model.S + s]) {
    let sum = 0;
    for (let m = 0; m < model.M; m++) sum += belief[m] * alpha[n * model.M + m];
    if (sum > value) [best, value] = [n, sum];
  }
  return { node: best, value };
}

// Where the policy goes on after another action than its own; `resume` of playEpisode. What
// `actionRanges` calls `lower` is what is then earned, on average.
function resumption(model, tables) {
  const { alpha, policy } = tables;
  return (t, s, belief) => (alpha && belief ? bestContinuation(model, tables, t, s, belief).node : policy.default[t * model.S + s]);
}

// Bounds on what each action is worth now, to the end of the episode. `lower`: the action once, then
// the continuation of the policy that is best for the belief after what is seen; it can be earned.
// `upper`: the action once, then as if told the context; nothing can earn more. Where the policy
// comes with chance p, nothing earns more than the policy from there on and `slack / (p discount^t)`
// either, for the policy misses at most `slack` of the optimum. Each is null where the table that it
// needs is. latentmdp/advice/values.py does the same, without `slack`, for advice.
function actionRanges(model, tables, at) {
  const { M, S, A, H } = model;
  const { alpha, known, slack } = tables;
  const ranges = Array.from({ length: A }, () => ({ lower: alpha ? 0 : null, upper: known ? 0 : null }));
  ranges.forEach((range, a) => {
    const seen = new Map(); // (symbol, next) -> probability of it and of each context
    for (let m = 0; m < M; m++) {
      if (!at.belief || at.belief[m] === 0) continue;
      const row = model.row(m, at.t, at.state, a);
      for (let i = model.indptr[row]; i < model.indptr[row + 1]; i++) {
        const weight = at.belief[m] * model.prob[i];
        if (alpha) range.lower += weight * model.reward[i];
        if (known) range.upper += weight * (model.reward[i] + model.discount * known[((at.t + 1) * S + model.next[i]) * M + m]);
        const key = model.symbol[i] * S + model.next[i];
        if (!seen.has(key)) seen.set(key, { next: model.next[i], joint: new Float64Array(M) });
        seen.get(key).joint[m] += weight;
      }
    }
    if (!alpha || at.t + 1 === H) return;
    for (const { next, joint } of seen.values()) range.lower += model.discount * bestContinuation(model, tables, at.t + 1, next, joint).value;
  });
  if (alpha && known) {
    const own = at.belief.reduce((sum, b, m) => sum + b * alpha[at.node * M + m], 0);
    const most = at.chance > 0 && slack !== null ? own + slack / (at.chance * model.discount ** at.t) : Infinity;
    for (const range of ranges) range.upper = Math.max(range.lower, Math.min(range.upper, most)); // they may cross by rounding error
  }
  return ranges;
}
