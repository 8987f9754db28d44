"""Logs for tests: episodes of a known model, random tables, and a slow reader of them."""

from collections import Counter, defaultdict

import numpy as np
import pandas as pd


def roll(model, episodes, rng, policy=None, next_state=True):
    """A log of a model under a Markov table `(H, S)` or uniform actions, with numbers as names."""
    rows = []
    for e in range(episodes):
        m = int(rng.choice(model.M, p=model.w))
        s = int(rng.choice(model.S, p=model.nu[m]))
        for t in range(model.H):
            a = int(rng.integers(model.A)) if policy is None else int(policy[t, s])
            row = (m * model.S + s) * model.A + a
            lo, hi = model.indptr[row], model.indptr[row + 1]
            p = model.prob[lo:hi]
            i = lo + int(rng.choice(hi - lo, p=p / p.sum()))
            rows.append((e, t, m, s, a, float(model.reward[i]), int(model.next[i])))
            s = int(model.next[i])
    names = ["episode", "step", "context", "state", "action", "reward", "next_state"]
    frame = pd.DataFrame(rows, columns=names)
    return frame if next_state else frame.drop(columns="next_state")


def everything(model):
    """`known` with all names of a model, so that none is lost because a log has not shown it."""
    sizes = {"contexts": model.M, "states": model.S, "actions": model.A}
    return {kind: range(n) for kind, n in sizes.items()}


def random_log(rng, *, next_state=None, marks=None, closing=None):
    """A ragged table with few names, in which an episode's rows stand together."""
    next_state = bool(rng.integers(2)) if next_state is None else next_state
    marks = rng.choice(["none", "terminated", "truncated", "both"]) if marks is None else marks
    closing = not next_state and bool(rng.integers(2)) if closing is None else closing
    noisy, rows = rng.random() < 0.3, []
    for e in range(int(rng.integers(1, 12))):
        length = int(rng.integers(1, 5))
        states = rng.integers(0, 4, length + 1)
        context = "ABC"[rng.integers(3)]
        end = int(rng.integers(3))
        for t in range(length):
            last = t == length - 1
            a = int(rng.integers(2))
            paid = float(states[t] + a) / 7 + (float(rng.random()) if noisy else 0.0)
            rows.append(
                {"episode": f"e{e}", "step": t, "context": context, "state": f"s{states[t]}",
                 "action": "xy"[a], "reward": paid, "next_state": f"s{states[t + 1]}",
                 "terminated": last and end == 1, "truncated": last and end == 2}
            )  # fmt: skip
        if closing and rng.random() < 0.5:
            rows.append(
                rows[-1] | {"step": length, "state": f"s{states[length]}", "action": None,
                            "reward": np.nan}
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    drop = [] if next_state else ["next_state"]
    drop += [c for c in ("terminated", "truncated") if marks not in (c, "both")]
    return frame.drop(columns=drop)


def slow_counts(frame, reading=None):
    """`(Counter of (context, state, action, next), Counter of (context, first state))`, by name.

    With the column of a `reading`, that is the fifth part of a key.

    Reads a clean log row by row, as docs/how_to_fit.md says that it is understood.
    """
    episodes = defaultdict(list)
    for row in frame.to_dict("records"):
        episodes[row["episode"]].append(row)
    steps, said = [], "terminated" in frame or "truncated" in frame
    moves, starts = Counter(), Counter()
    acted = set()
    for rows in episodes.values():
        rows = sorted(rows, key=lambda r: r["step"])
        closing = rows[-1]["action"] is None or rows[-1]["action"] != rows[-1]["action"]
        real = rows[:-1] if closing else rows
        final = real[-1].get("next_state", rows[-1]["state"] if closing else None)
        ended = any(r.get("terminated") for r in rows)
        if "terminated" not in frame and said:
            ended = not any(r.get("truncated") for r in rows)
        steps.append((real, final, ended))
        acted |= {r["state"] for r in real}
    longest = max(len(real) for real, _, _ in steps)
    for real, final, ended in steps:
        starts[real[0]["context"], real[0]["state"]] += 1
        for r, nxt in zip(real, [*[x["state"] for x in real[1:]], final], strict=True):
            if r is real[-1]:
                if not said and nxt is None:
                    ended = len(real) < longest
                if ended and (nxt is None or nxt in acted):
                    nxt = "(end)"
                if nxt is None:
                    continue
            read = () if reading is None else (str(r[reading]),)
            moves[(r["context"], r["state"], r["action"], nxt, *read)] += 1
    return moves, starts
