// How dark each state is drawn: where the learner has been, where the policy goes, what is still open.

// [kind, words] of the shades that there are data for.
function shadeKinds(prepared) {
  const kinds = [];
  if (prepared.powers) kinds.push(["known", "learner's visits, this context"], ["known-all", "learner's visits, all contexts"]);
  if (prepared.hoped) kinds.push(["open", "not ruled out yet, at this step"]);
  return [...kinds, ["route", "where this policy goes, this context"], ["route-all", "where this policy goes"], ["none", "nothing"]];
}

// { values: S numbers from 0 to 1, or null; text: what the darkest means }
function shade(kind, model, prepared, choice) {
  if (kind === "none") return { values: null, text: "" };
  if (kind === "open") return { values: openShare(model, prepared, choice), text: "darkest: no action is ruled out yet" };
  const context = kind.endsWith("-all") ? null : choice.context;
  if (kind.startsWith("route")) {
    const values = routeVisits(model, prepared, context);
    const most = values.reduce((a, b) => Math.max(a, b), 0);
    return { values: values.map((v) => (most > 0 ? Math.sqrt(v / most) : 0)), text: `darkest: ${short(+most.toPrecision(3))} visits per episode` };
  }
  const values = knownVisits(model, prepared, context);
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  const least = values.reduce((a, b) => (b > 0 ? Math.min(a, b) : a), most);
  const log = (v) => (most > least ? 0.15 + (0.85 * Math.log(v / least)) / Math.log(most / least) : 1);
  return { values: values.map((v) => (v > 0 ? log(v) : 0)), text: most > 0 ? `darkest: ${short(most)} visits (logarithmic)` : "no visits yet" };
}

// Share of the actions that the learner hopes to be worth 1, the most there is, in the true context.
function openShare(model, prepared, choice) {
  const step = Math.min(choice.step, model.H - 1);
  return Float64Array.from({ length: model.S }, (_, s) => {
    const first = (prepared.policy.default[step * model.S + s] * model.M + choice.context) * model.A;
    const values = prepared.hoped.slice(first, first + model.A).filter((_, a) => model.available(step, s, a));
    return values.filter((value) => value > 0.9999).length / values.length;
  });
}

// Snapshot counts are powers of two: 1 + the power is stored, 0 for never.
function knownVisits({ S, A, numbered }, prepared, context) {
  const visits = new Float64Array(S);
  prepared.powers.forEach((power, row) => {
    const m = Math.floor(row / (numbered * A));
    if (power > 0 && (context === null || m === context)) visits[Math.floor(row / A) % S] += 2 ** (power - 1);
  });
  return visits;
}

function routeVisits(model, { visits, policy }, context) {
  if (!visits.has(context)) visits.set(context, expectedVisits(model, policy, context));
  return visits.get(context);
}
