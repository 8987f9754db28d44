// Rows of actions: what each is worth, as bars from zero on one scale for all of them.

// actions: [{ name, brief, available, policys, chosen, lower, upper, hoped, act }], values as they are shown;
// markov: whether the policy has no memory. Returns { rows, keys }.
function actionBars(actions, { least, markov, unit, discount }) {
  const values = actions.flatMap((x) => (x.available ? [x.lower, x.upper, x.hoped] : [])).filter((x) => x !== null);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const span = Math.max(high - low, least); // below that, nothing is left to show
  const at = (x) => (100 * (x - low)) / span;
  const from = (x, y) => ({ left: `${at(Math.min(x, y))}%`, width: `${at(Math.max(x, y)) - at(Math.min(x, y))}%` });
  const figure = (x) => rounded(x, decimals(span));
  const rows = actions.map((x) => (x.available ? actionRow(x, { low, high, from, figure, markov }) : unavailableRow(x)));
  if (values.length) rows.push(scaleRow({ low, high, at, figure }));
  return { rows, keys: barKeys(actions, { markov, unit, discount }) };
}

// Digits after the point that tell values apart which differ by a thousandth of the span.
const decimals = (span) => Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(span))));
const rounded = (x, digits) => { const text = x.toFixed(digits); return +text === 0 ? text.replace("-", "") : text; };

function unavailableRow(x) {
  return element("button", { type: "button", class: "action", disabled: true, title: `${x.name} is unavailable here.` },
    element("span", { class: "who soft" }, x.brief), element("span", { class: "worth" }), element("span", { class: "numbers soft" }, "unavailable"));
}

function actionRow(x, { low, high, from, figure, markov }) {
  const worth = element("span", { class: "worth" });
  if (x.hoped !== null) worth.append(element("span", { class: `hoped${x.hoped < 0 ? " below" : ""}`, style: from(0, x.hoped) }));
  const [lower, upper] = [x.lower ?? Math.min(0, x.upper), x.upper ?? Math.max(0, x.lower)]; // 0 stands for an unknown end
  const sure = lower > 0 ? lower : upper < 0 ? upper : 0; // of one sign: earned, or lost, at any rate
  if (sure !== 0) worth.append(element("span", { class: "real", style: from(0, sure) }));
  if (upper > lower) worth.append(element("span", { class: "open", style: from(lower, upper) }));
  if (low < 0 && high > 0) worth.append(element("span", { class: "zero", style: { left: from(0, 0).left } }));
  const numbers = element("span", { class: "numbers" }, rangeText(x, figure));
  if (x.hoped !== null) numbers.append(element("span", { class: "soft" }, `hoped ${figure(x.hoped)}`));
  const said = sayWorth(x, figure, markov);
  return element("button", {
    type: "button", class: `action${x.chosen ? " chosen" : ""}`, "aria-pressed": String(x.chosen), "data-lower": x.lower, "data-upper": x.upper, "data-hoped": x.hoped,
    title: x.chosen ? said : `${said} Click to see what would have happened.`, onclick: x.act,
  }, element("span", { class: "who" }, `${x.policys ? "→ " : ""}${x.brief}`), worth, numbers);
}

function rangeText({ lower, upper }, figure) {
  if (lower === null) return upper === null ? "" : `at most ${figure(upper)}`;
  if (upper === null) return `at least ${figure(lower)}`;
  return figure(lower) === figure(upper) ? figure(lower) : `${figure(lower)} to ${figure(upper)}`;
}

function sayWorth(x, figure, markov) {
  const then = markov ? "goes on with its policy" : "follows the best of the policy's continuations for what it then believes";
  const parts = [`${x.name}${x.policys ? ", the policy's choice" : ""}.`];
  if (x.lower !== null) parts.push(`If the agent does this now and then ${then}, it earns ${figure(x.lower)} from here on, on average.`);
  if (x.upper !== null) parts.push(`No policy that does this now can earn more than ${figure(x.upper)}.`);
  if (x.hoped !== null) parts.push(`The learner hoped for ${figure(x.hoped)}.`);
  return parts.join(" ");
}

// The ends of the scale, and zero where it lies between them and has room.
function scaleRow({ low, high, at, figure }) {
  const ticks = [...new Set([low, 0, high])].filter((x) => x === low || x === high || (at(x) > 22 && at(x) < 78));
  const place = (x) => (at(x) < 1 ? { left: 0 } : at(x) > 99 ? { right: 0 } : { left: `${at(x)}%`, transform: "translateX(-50%)" });
  return element("div", { class: "action-scale", "aria-hidden": "true" }, element("span", {}),
    element("span", { class: "ticks" }, ...ticks.map((x) => element("span", { style: place(x) }, x === 0 ? "0" : figure(x)))), element("span", {}));
}

function barKeys(actions, { markov, unit, discount }) {
  const key = (text, kind) => element("span", { class: "key" }, kind ? element("i", { class: kind }) : null, text);
  const has = (part) => actions.some((x) => x.available && x[part] !== null);
  const keys = has("lower") || has("upper") ? [key("certain", "real"), key("between at least and at most", "open")] : [];
  if (has("hoped")) keys.push(key(`what the learner hoped (${short(unit)} = nothing ruled out)${markov ? "" : "; for other actions than the policy's, with what it does after unexpected observations"}`, "hoped"));
  keys.push(key(`What is earned on average from here to the end of the episode${discount === 1 ? "" : `, discounted by ${discount} a step`}.`));
  if (has("lower")) keys.push(key(markov ? "At least: the action now, then on with the policy." : "At least: the action now, then the best of the policy's continuations for what is then believed."));
  if (has("upper")) keys.push(key("At most: no policy that takes the action now earns more."));
  if (!has("lower")) keys.push(key("The policy is too large for this page to say what actions are worth at least."));
  if (!has("upper")) keys.push(key("The model is too large for this page to say what actions are worth at most."));
  return keys;
}
