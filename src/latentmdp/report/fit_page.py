"""One page from a log: what the data say, what to do, what that is worth, and an explorer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from latentmdp.evaluation.evaluate import evaluate
from latentmdp.fitting.deciding.decision import Decision, Interval, likely_moments, table_lines
from latentmdp.fitting.summary import THIN, Summary
from latentmdp.report.frame import render_page
from latentmdp.report.html import Figure, count, number, section, table, tag
from latentmdp.report.interval_chart import interval_chart
from latentmdp.report.phases import plan_phase
from latentmdp.report.sections import software
from latentmdp.report.world import world
from latentmdp.report.write import NEED, SCRIPTS
from latentmdp.runtime.files import PathLike, write_atomically, writer_of

if TYPE_CHECKING:
    from latentmdp.fitting.fits import Fit

LISTED = 20  # lines of each list
NOT_ADVISED = (
    "This is not a recommendation: the log does not show that it is better than what was done."
)


def write_fit_page(
    path: PathLike,
    fit: Fit,
    summary: Summary,
    decision: Decision,
    *,
    title: str = "What the log says, and what to do",
    command: str = "",
) -> Path:
    """Write the page of a fit and a decision; returns its path. `command`: how to make it again."""
    model = fit.model
    lead = (
        f"{count(fit.episodes, 'episode')} with {count(model.M, 'context')}, "
        f"{count(model.S, 'state')}, {count(model.A, 'action')}, {count(model.H, 'step')}. Values "
        f"are {'' if model.discount == 1 else 'discounted '}total rewards of an episode, in the "
        "units of the log."
    )
    parts = [
        ("short", "In short", _short(fit, decision)),
        ("do", "What to do", _what_to_do(fit, decision)),
        ("data", "What the data say", _data(fit, summary)),
        ("thin", "Where data are thin", _thin(summary)),
        ("explore", "Explorer", _explorer()),
        ("made", "How it was made", _made(fit, summary, command)),
    ]
    html = render_page(title, lead, parts, _explorer_data(fit, decision), SCRIPTS, NEED)
    write_atomically(path, writer_of(html.encode("utf-8")))
    return Path(path)


def _explorer_data(fit: Fit, decision: Decision) -> dict[str, Any]:
    sources = [
        {
            "name": name, "model": 0, "total": 1, "best": None, "by": " in the fitted model",
            "phases": [plan_phase(fit.model, plan.policy, evaluate(fit.model, plan.policy).value)],
        }
        for name, plan in (("with memory", decision.memory), ("without memory", decision.markov))
    ]  # fmt: skip
    certificate = decision.memory.certificate  # of the mean model, which the explorer shows
    optimum = None if certificate is None else certificate.upper
    models = [world(fit.model, optimum) | {"userUnits": False}]
    return {"plans": [], "sources": sources, "models": models}


def _words(interval: Interval, level: float) -> str:
    return f"{number(interval.lower)} to {number(interval.upper)} at {level:.0%}"


def _short(fit: Fit, decision: Decision) -> Markup:
    cards = [
        tag(
            "li", tag("h3", name), tag("div", number(interval.value), class_="big"),
            tag("div", _words(interval, decision.level), class_="small soft"), class_="card",
            style=f"--tone: var(--c{i % 8})",
        )
        for i, (name, interval) in enumerate(decision.rows)
    ]  # fmt: skip
    warning = ""
    if decision.memory.worth.assumed_steps > 0.01:
        warning = (
            f"It spends {decision.memory.worth.assumed_steps:.2g} steps of an episode where the "
            "log does not say what follows: the value assumes something there, the interval allows "
            "anything."
        )
    chart = interval_chart(
        [(name, *interval) for name, interval in decision.rows],
        f"Values with {decision.level:.0%} intervals",
    )
    sentences = (decision.promise, decision.how_judged, decision.how_filled, decision.how_cut,
                 decision.how_direct)  # fmt: skip
    judged = " ".join(filter(None, sentences))
    first = [tag("p", tag("strong", fit.verdict))] if fit.verdict else []
    first += [tag("p", tag("strong", "Caution: "), fit.caution, ".")] if fit.caution else []
    first.append(tag("p", tag("strong", decision.memory.verdict)))
    if decision.memory.warning:
        first.append(tag("p", decision.memory.warning, class_="verdict broken"))
    return section("short", "In short", *first,
                   tag("p", warning, " " if warning else "", judged),
                   tag("ul", *cards, class_="cards"), chart)  # fmt: skip


def _what_to_do(fit: Fit, decision: Decision) -> Markup:
    level = f"{decision.level:.0%} interval"
    differences = table(
        "What is gained", ("difference", "value", level),
        [(name, x.value, f"{number(x.lower)} to {number(x.upper)}")
         for name, x in decision.differences],
    )  # fmt: skip
    states, actions = fit.names["states"], fit.names["actions"]
    moments = [
        (m.step + 1, states[m.state], _belief(fit, m.belief), tag("strong", actions[m.action]),
         Figure(f"{m.reach:.1%}"))
        for m in likely_moments(fit, decision.memory.policy, LISTED)
    ]  # fmt: skip
    return section(
        "do", "What to do",
        *([] if decision.memory.supported else [tag("p", tag("strong", NOT_ADVISED))]),
        tag("p", "Without memory: what to do depends on the state and the step alone."),
        table("The policy without memory", ("state", "do (steps, from 1)"),
              table_lines(fit, decision.markov.policy)),
        tag("p", "With memory: what happened so far says which context is likely, and that decides "
                 "as well. The moments that an episode most likely comes to:"),
        table("Likely moments of the policy with memory",
              ("step", "state", "what is then likely", "do", "chance"), moments),
        tag("p", "What the two policies gain, and what knowing the context beforehand would add at "
                 "most. Differences come from the same draws, so their intervals are their own."),
        differences,
    )  # fmt: skip


def _belief(fit: Fit, belief: Any) -> str:
    order = sorted(range(len(belief)), key=lambda m: -belief[m])[:3]
    names = fit.names["contexts"]
    return ", ".join(f"{names[m]} {belief[m]:.0%}" for m in order if belief[m] >= 0.005)


def _data(fit: Fit, summary: Summary) -> Markup:
    contexts = [
        (line.name, line.episodes, Figure(f"{line.weight:.3f}"),
         Figure(f"{line.lower:.3f} to {line.upper:.3f}"), line.mean_return)
        for line in summary.contexts[:LISTED]
    ]  # fmt: skip
    names = summary.context_names
    pairs = [
        (f"{names[p.first]} / {names[p.second]}", p.verdict, Figure(f"{p.log_bayes:.4g}"),
         p.places, _place(fit, p.best_place))
        for p in sorted(summary.pairs, key=lambda p: p.log_bayes)[:LISTED]
    ]  # fmt: skip
    parts: list[Any] = [
        table("Contexts", ("context", "episodes", "share", "95% interval", "mean total reward"),
              contexts),
    ]  # fmt: skip
    if pairs:
        parts += [
            tag("p", "Can the data tell contexts apart? The log Bayes factor compares two "
                     "different behaviours with one common one: above 3 the data speak strongly "
                     "for a difference, below 0 for none."),
            table("Pairs of contexts", ("pair", "verdict", "log Bayes factor", "places",
                                        "tells most"), pairs),
        ]  # fmt: skip
    said = [*summary.said, summary.rewards, *summary.doubtful]
    if fit.model.readings > 1:
        said.append(f"the model has {fit.model.readings} readings besides the next state")
    if summary.left_out_episodes:
        said.append(f"{summary.left_out_episodes:,} episodes with doubtful rows were left out")
    if summary.cut_episodes:
        said.append(f"{summary.cut_episodes:,} episodes were used up to their first doubtful row")
    parts += [tag("p", "How the log was read:"), _list(said)]
    return section("data", "What the data say", *parts)


def _place(fit: Fit, place: tuple[int, int] | None) -> str:
    if place is None:
        return "–"
    return f"{fit.names['actions'][place[1]]} in {fit.names['states'][place[0]]}"


def _thin(summary: Summary) -> Markup:
    words = f"{summary.unseen_sentence[0].upper()}{summary.unseen_sentence[1:]}. "
    if summary.unseen_rows:
        words += (
            f"The policy with memory spends {number(summary.unseen_reach)} steps of an episode "
            "there. "
        )
    words += (
        f"The policy with memory spends {number(summary.thin_reach)} steps of an episode where the "
        f"log has fewer than {THIN} visits."
    )
    if summary.advice:
        words += f" {summary.advice[0].upper()}{summary.advice[1:]}."
    parts: list[Any] = [tag("p", words)]
    if summary.unshown:
        shares = "; ".join(f"{part.what}: {part}" for part in summary.unshown)
        parts.append(
            tag(
                "p", f"Not in the log, nor in any interval of a value (95%, Good-Turing): {shares}."
            )
        )
    if summary.thin:
        rows = [(p.context, p.state, p.action, p.visits, Figure(f"{p.reach:.3g}"))
                for p in summary.thin[:LISTED]]  # fmt: skip
        parts.append(
            table("Thin places", ("context", "state", "action", "visits", "steps an episode"), rows)
        )
    return section("thin", "Where data are thin", *parts)


def _made(fit: Fit, summary: Summary, command: str) -> Markup:
    assumed = fit.assumed
    facts = [
        f"{fit.rows:,} rows, {fit.episodes:,} episodes",
        f"prior of {assumed.prior:g} visits a row, spread as all contexts together went on"
        + (" (maximum likelihood)" if assumed.prior == 0 else ""),
        f"rewards {'observed' if fit.model.observe_rewards else 'hidden'} while a policy runs",
        ", ".join(f"{name} {version}" for name, version in software().items()),
    ]
    parts: list[Any] = [_list(facts)]
    if command:
        block = tag("pre", command, id="again", class_="wrap", tabindex=0)
        parts.append(tag("div", block, tag("button", "copy", type="button", data_copy="again"),
                         class_="copy"))  # fmt: skip
    button = tag("button", "save the model as model.json", type="button", class_="save",
                 data_model=0, data_file="model.json")  # fmt: skip
    return section("made", "How it was made", *parts, tag("p", button))


def _explorer() -> Markup:
    words = (
        "Watch one episode of the fitted model: choose the context that the policy does not know, "
        "and see what it believes, what it does, and what each action is worth by the fit."
    )
    return section("explore", "Episode explorer", tag("p", words), tag("div", id="explorer"))


def _list(items: Sequence[str]) -> Markup:
    return tag("ul", *(tag("li", item) for item in items))
