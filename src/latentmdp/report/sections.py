"""The page's sections: what can be said without JavaScript is said here."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from latentmdp._version import __version__
from latentmdp.learning.regret import RegretBracket
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.time_augmented import step_dependent
from latentmdp.model.units import USER, USER_WORDS
from latentmdp.report.groups import SEEDS_FOR_PERCENTILES, Group
from latentmdp.report.html import Figure, count, number, section, table, tag

if TYPE_CHECKING:
    from latentmdp.learning.run import Run
    from latentmdp.planning.plan import Plan

CARDS = 6  # with more groups there is the table alone
COMMANDS = 24


def lead(
    runs: Sequence["Run"], models: Sequence[LatentMDP], groups: Sequence[Group],
    optima: Sequence[tuple[float, float]],
) -> str:  # fmt: skip
    """One sentence of what was run."""
    model = step_dependent(models[0])
    sizes = (
        f"{count(model.M, 'context')}, {count(model.S, 'state')}, {count(model.A, 'action')}, "
        f"{count(model.H, 'step')}"
    )
    what = f"a latent MDP with {sizes}" if len(models) == 1 else count(len(models), "latent MDP")
    most = max(run.episodes for run in runs)
    return (
        f"{count(len(groups), 'learner')} on {what}; {count(most, 'episode')}, "
        f"{count(len(runs), 'run')} in all. Nothing is sampled that can be computed: "
        + exactness(all(best == upper for best, upper in optima))
    )


def exactness(closed: bool) -> str:
    """What is exact: regret itself only if all optima are closed."""
    if closed:
        return "values and regret are exact."
    return (
        "values, and so differences of regret, are exact. The level of regret is known up to the "
        "gap of the optimum; both ends are shown."
    )


def in_short(
    runs: Sequence["Run"], groups: Sequence[Group], optima: Sequence[tuple[float, float]]
) -> Markup:
    """A card for each group, and a table of all of them; `optima` bounds, one pair per run."""
    members = [[runs[j] for j in group.runs] for group in groups]
    facts = [_numbers(m, optima[g.runs[0]]) for g, m in zip(groups, members, strict=True)]
    cards = [_card(i, g, members[i], facts[i]) for i, g in enumerate(groups)]
    parts: list[Any] = [*_units_words(runs), *_notes(runs, facts)]
    parts += [tag("ul", *cards, class_="cards")] if len(cards) <= CARDS else []
    if len(groups) > 1:
        rows = [_row(g, facts[i]) for i, g in enumerate(groups)]
        headers = ["learner", "seeds", "regret", "lowest", "highest", "final value", "optimum",
                   "updates", "seconds"]  # fmt: skip
        if all(len(group.runs) == 1 for group in groups):  # no spread to show
            shown = [i for i in range(len(headers)) if i not in (1, 3, 4)]
            headers, rows = [headers[i] for i in shown], [tuple(r[i] for i in shown) for r in rows]
        parts.append(table("All learners at their last episode", headers, rows))
    return section("short", "In short", *parts)


def _units_words(runs: Sequence["Run"]) -> list[Markup]:
    """What regret and values are in, where rewards were normalised."""
    if any(run.units == USER for run in runs):
        return [tag("p", f"Regret and values are in {USER_WORDS}.")]
    found = sorted({run.model.units_in_words for run in runs if run.units})
    return [tag("p", f"Regret and values are in {one}.") for one in found]


def _notes(runs: Sequence["Run"], facts: Sequence[dict[str, Any]]) -> list[Markup]:
    """A sentence where brackets are wide, and one about memory where it is known to pay."""
    found = []
    if any(n["regret"].wide for n in facts):
        found.append(
            "The bracket of a regret here is wider than a tenth of it: the optimum is not closed "
            "(a plan with a smaller gap, or --plan, makes it narrower)."
        )
    values = {run.history_value for run in runs} - {None}
    if len(values) == 1:
        found.append(
            f"Learners of the Markov class are compared with the best policy without memory; with "
            f"memory, at least {values.pop():.6g} can be reached."
        )
    return [tag("p", words) for words in found]


def _numbers(runs: Sequence["Run"], optimum: tuple[float, float]) -> dict[str, Any]:
    best, upper = optimum
    regret = np.array([run.regret + (best - run.best_value) * run.episodes for run in runs])
    slack = (upper - best) * runs[0].episodes  # a group's runs have equal numbers of episodes

    def bracket(value: float) -> RegretBracket:
        return RegretBracket(float(value), float(value) + slack)

    return {
        "seeds": len(runs),
        "regret": bracket(np.median(regret)),
        "low": bracket(regret.min()),
        "high": bracket(regret.max()),
        "value": float(np.median([run.final_value for run in runs])),
        "optimum": RegretBracket(best, upper),
        "updates": round(float(np.median([run.updates for run in runs]))),
        "seconds": float(np.median([run.seconds for run in runs])),
    }


def _card(i: int, group: Group, runs: Sequence["Run"], n: dict[str, Any]) -> Markup:
    regret, episodes = n["regret"], runs[0].episodes
    loss = RegretBracket(regret.lower / episodes, regret.upper / episodes)
    facts = [
        ("per episode", loss.text(number)),
        ("final value", f"{n['value']:.4f}"),
        ("optimum", n["optimum"].text("{:.4f}".format)),
        ("updates", number(n["updates"])),
        ("seconds", f"{n['seconds']:.2f}"),
    ]
    if len(runs) > 1:
        spread = f"{number(n['low'].lower)} – {number(n['high'].lower)}"
        facts.insert(1, (count(len(runs), "seed"), spread + " (lower ends)" * (not regret.exact)))
    listed = tag("dl", *(tag("dt", k) + tag("dd", v) for k, v in facts))
    return tag(
        "li",
        tag("h3", group.label),
        tag("div", regret.text(number), class_="big"),
        tag("div", f"regret after {count(episodes, 'episode')}", class_="small soft"),
        listed,
        class_="card",
        style=f"--tone: var(--c{i % 8})",
    )


def _row(group: Group, n: dict[str, Any]) -> tuple[Any, ...]:
    return (
        group.label, n["seeds"], *(Figure(n[name].text(number)) for name in ("regret", "low",
        "high")), Figure(f"{n['value']:.6f}"), Figure(n["optimum"].text("{:.6f}".format)),
        n["updates"], round(n["seconds"], 2),
    )  # fmt: skip


def regret_section(
    several_seeds: bool,
    limits: Sequence[dict[str, Any]],
    lower: Sequence[dict[str, Any]],
    exploring: Sequence[tuple[str, float, int]] = (),
    scaled: bool = False,
    closed: bool = True,
) -> Markup:
    """The regret chart and how to read it; `exploring`: learner, from which episode, played.

    `scaled`: regret is not in units of rewards in [0, 1], as the theorem's is. `closed`: whether
    all optima are.
    """
    words = [
        "Regret is what was lost against the best known policy of the same class, summed over all "
        "episodes. A straight line of slope 1 on logarithmic axes never learns; a line that "
        "bends down to level has found the best policy."
    ]
    if not closed:
        words.append(open_words())
    if several_seeds:
        words.append(band_words())
    if any(not limit["off"] for limit in limits):
        words.append(
            "The theorem's bound holds for its two algorithms with probability 1 − 9δ, with all "
            "its constants, and Var* replaced by the most it can be: it is a promise, not a guess."
            + " It is about rewards in [0, 1] and drawn in the units of this page."
            * scaled
        )
    if lower:
        words.append(
            "The diamond is the paper's lower bound: averaged over the secrets of this family, no "
            "learner ends below it."
        )
    parts = [tag("p", " ".join(words))]
    if exploring:
        parts.append(tag("p", exploring_words(exploring)))
    return section("regret", "Regret", *parts, tag("div", id="chart-regret"))


def exploring_words(exploring: Sequence[tuple[str, float, int]]) -> str:
    """Why curves coincide at first and rise again later."""
    listed = "; ".join(
        f"{label}: about {_rough(episode)}" + (" (after its end)" if episode > played else "")
        for label, episode, played in exploring
    )
    return (
        "As long as the bonuses of all rows are large, every policy looks perfect, ties decide, "
        "and optimistic learners play alike. When the bonuses of the rows that a good policy "
        "visits fall below what is left to be gained, the learner tries what it knows less, and "
        "regret rises again: it begins to explore, as the proof has it, and has not forgotten "
        f"anything. Expected from this episode on, or a few times as late: {listed}. A "
        "smaller bonus_scale explores earlier and less."
    )


def _rough(episode: float) -> str:
    """Two digits are all that is known."""
    return number(float(f"{episode:.2g}"))


def open_words() -> str:
    """What the shade above a line of regret is."""
    return (
        "The optimum is not closed: a line is regret against the best known policy, and the shade "
        "above it reaches to regret against the proven upper bound. The truth lies in between; "
        "the difference of two lines of the same class is exact."
    )


def band_words() -> str:
    """What a band is."""
    return (
        "Lines are medians over seeds; bands reach from the lowest to the highest seed "
        f"(from the 10th to the 90th percentile with {SEEDS_FOR_PERCENTILES} seeds or more)."
    )


def explorer_section(left_out: str) -> Markup:
    """The explorer's place and its words."""
    words = tag(
        "p",
        "Watch one episode: the page plays it here and now from the stored policy and model, with "
        "the seed you choose. Early policies explore; late ones search where it pays. ",
        Markup("Keys: <kbd>←</kbd> <kbd>→</kbd> step, <kbd>space</kbd> plays, <kbd>n</kbd> next "
             "seed, <kbd>page up</kbd> <kbd>page down</kbd> earlier and later policy."),
    )  # fmt: skip
    note = tag("p", left_out, class_="note small") if left_out else ""
    return section("explore", "Episode explorer", words, tag("div", id="explorer"), note)


def chart_section(ident: str, title: str, words: str) -> Markup:
    """A section with one chart."""
    return section(ident, title, tag("p", words), tag("div", id=f"chart-{ident}"))


def plan_seconds(plan: "Plan") -> float:
    """Until the bounds moved for the last time; compiling before, if any, is left out."""
    return plan.history[-1][0] if plan.history else plan.seconds


def plan_section(plans: Sequence[tuple[str, "Plan"]], informed: float | None) -> Markup:
    """Certificates: what is proved about the optimum, and what memory and information are worth."""
    rows: list[tuple[Any, ...]] = [
        (name, plan.policy_class, Figure(f"{plan.lower:.6g}"), Figure(f"{plan.upper:.6g}"),
         Figure(f"{100 * plan.gap:.3g}%"), plan.status,
         plan.method, plan.nodes, round(plan_seconds(plan), 2))
        for name, plan in plans
    ]  # fmt: skip
    headers = ("plan", "class", "value of its policy", "no policy beats", "gap", "status",
               "method", "nodes", "seconds")  # fmt: skip
    parts: list[Any] = [
        tag("p", "The first number is the exact value of a policy that was found; the second is "
                 "proved: no policy of that class is worth more."),
        table("Certificates by policy class", headers, rows),
        *_worths(plans, informed),
    ]  # fmt: skip
    for i, (name, plan) in enumerate(plans):
        if len(plan.history) > 2:
            parts.append(tag("div", tag("h3", f"{name}: bounds over time"),
                             tag("div", id=f"chart-plan-{i}")))  # fmt: skip
    return section("planning", "Planning certificates", *parts)


def _worths(plans: Sequence[tuple[str, "Plan"]], informed: float | None) -> list[Markup]:
    by_class = {plan.policy_class: plan for _, plan in plans}
    history, markov = by_class.get("history"), by_class.get("markov")
    rows: list[tuple[Any, ...]] = []
    if history and markov:
        low, high = max(0.0, history.lower - markov.upper), history.upper - markov.lower
        rows.append(("memory: with against without", low, high))
    if history and informed is not None:
        low, high = max(0.0, informed - history.upper), max(0.0, informed - history.lower)
        rows.append(("information: knowing the context beforehand", low, high))
    return [table("What it is worth", ("worth of", "at least", "at most"), rows)] if rows else []


def setting_section(
    runs: Sequence["Run"], models: Sequence[LatentMDP], groups: Sequence[Group]
) -> Markup:
    """Spec, seeds, versions, and one command per learner to do it again."""
    keys = list(asdict(runs[0].spec))
    keys.remove("seed")
    rows = []
    for group in groups:
        first = runs[group.runs[0]]
        spec = asdict(first.spec)
        seeds = _ranges([runs[i].spec.seed for i in group.runs])
        rows.append((group.label, *(_plain(spec[key]) for key in keys), seeds))
    parts: list[Any] = [
        table(
            "Settings of all learners",
            ("learner", *(key.replace("_", " ") for key in keys), "seeds"),
            rows,
        )
    ]
    for i, model in enumerate(models):
        parts += _model_words(i, model, len(models))
    parts.append(tag("h3", "Again"))
    parts.append(tag("p", "Save the model with the button above, then (same versions, same bits):"))
    lines = [_command(runs, group, len(models)) for group in groups[:COMMANDS]]
    block = tag("pre", "\n".join(lines), id="again", tabindex=0)
    parts.append(tag("div", block, tag("button", "copy", type="button", data_copy="again"),
                     class_="copy"))  # fmt: skip
    versions = ", ".join(f"{name} {found}" for name, found in software().items())
    parts.append(tag("p", f"Versions: {versions}.", class_="small soft"))
    return section("setting", "What was run", *parts)


def _model_words(i: int, model: LatentMDP, models: int) -> list[Markup]:
    name = model_file(i, models)
    rewards = "observed" if model.observe_rewards else "hidden until the end"
    states = model.S if model.augmented is None else model.augmented.states
    words = (
        f"M = {model.M} contexts, S = {states} states, A = {model.A} actions, H = {model.H} "
        f"steps, at most Γ = {model.Gamma} next states; rewards {rewards}."
    )
    if model.augmented is not None:
        words += (
            f" Transitions or rewards change with the step: learners see the step in the state, "
            f"{model.S} states in all."
        )
    if model.units:
        words += f" Rewards are in {model.units_in_words}."
    button = tag("button", f"save the model as {name}", type="button", class_="save",
                 data_model=i, data_file=name)  # fmt: skip
    return [
        tag("h3", "Model" if models == 1 else f"Model {i + 1}"),
        tag("p", words),
        tag("p", button),
    ]


def model_file(i: int, models: int) -> str:
    """What the page calls the file it writes."""
    return "model.json" if models == 1 else f"model-{i + 1}.json"


def _command(runs: Sequence["Run"], group: Group, models: int) -> str:
    spec = runs[group.runs[0]].spec
    seeds = sorted(runs[i].spec.seed for i in group.runs)
    words = [
        "latentmdp", "learn", model_file(group.model, models), "--algorithm", spec.algorithm,
        "--episodes", str(spec.episodes), "--class", spec.policy_class,
    ]  # fmt: skip
    told = ("algorithm", "episodes", "policy_class", "seed")
    for field in fields(spec):
        value = getattr(spec, field.name)
        if field.name not in told and value != field.default:
            words += [f"--{field.name.replace('_', '-')}", f"{value}"]
    words += ["--seed", str(seeds[0])]
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[0] + len(seeds))):
        words += ["--seeds", str(len(seeds))]
    return shlex.join(words)


def _ranges(seeds: Sequence[int]) -> str:
    """`0 to 4, 7`."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and seed == parts[-1][1] + 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in parts)


def _plain(value: Any) -> str:
    return number(value) if isinstance(value, int) else str(value)


def software() -> dict[str, str]:
    """Versions of what decides the bits."""
    found = {"latentmdp": __version__, "Python": python_version()}
    for name in ("numpy", "numba", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
