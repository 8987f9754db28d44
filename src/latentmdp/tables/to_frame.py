"""Models as pandas tables, one row per outcome; see `to_frame` of both kinds of models."""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Array, Ints
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.model.timed import TimedLatentMDP


def model_frame(model: "LatentMDP", names: bool = True) -> "pd.DataFrame":
    """See `LatentMDP.to_frame`."""
    import pandas as pd  # loads slowly

    row = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
    listed = model.listed_rows[row]  # not what unavailable actions repeat
    row = row[listed]
    pair, action = np.divmod(row, model.A)
    context, state = np.divmod(pair, model.S)
    return pd.DataFrame(
        {
            **_labels(model, names, context, state, action, model.next[listed]),
            "probability": model.prob[listed],
            "reward": model.reward[listed],
            "weight": model.w[context],
            "first": model.nu[context, state],
        }
    )


def timed_frame(model: "TimedLatentMDP", names: bool = True) -> "pd.DataFrame":
    """See `TimedLatentMDP.to_frame`."""
    import pandas as pd  # loads slowly

    c = model.columns
    return pd.DataFrame(
        {
            "step": c.step,
            **_labels(model, names, c.context, c.state, c.action, c.next),
            "probability": c.prob.copy(),
            "reward": c.reward.copy(),
            "weight": model.w[c.context],
            "first": model.nu[c.context, c.state],
        }
    )


def _labels(
    model: "LatentMDP | TimedLatentMDP",
    names: bool,
    context: Ints,
    state: Ints,
    action: Ints,
    following: Ints,
) -> dict[str, Any]:
    """The columns of names, or of numbers.

    `from_frame` numbers names by first appearance. If that order differs from the model's, or an
    action is never available, the columns are categories, which keep the order.
    """
    import pandas as pd  # loads slowly

    columns: dict[str, Any] = {}
    for labels, part in (
        (model.context_names, {"context": context}),
        (model.state_names, {"state": state, "next_state": following}),
        (model.action_names, {"action": action}),
    ):
        chosen = labels if names else None
        columns |= {name: named(chosen, numbers) for name, numbers in part.items()}
        all_used = "action" not in part or len(np.unique(action)) == model.A
        if all_used and (chosen is None or in_order(*part.values())):
            continue
        categories = list(chosen or range(model.A))
        if len(set(categories)) == len(categories):
            for name in part:
                columns[name] = pd.Categorical(columns[name], categories=categories)
        elif not all_used:
            raise ModelError(
                "the names of actions must be different where an action is available nowhere, "
                "since the frame has no rows of it (names=False writes numbers)"
            )
    return {name: columns[name] for name in ("context", "state", "action", "next_state")}


def in_order(*columns: Ints) -> bool:
    """Whether all numbers first appear in ascending order, column after column."""
    first = np.unique(np.concatenate(columns), return_index=True)[1]
    return bool((np.diff(first) > 0).all())


def named(names: tuple[str, ...] | None, numbers: Ints) -> Array:
    """The names of the numbers, or the numbers where there are no names."""
    return numbers.copy() if names is None else np.array(names, dtype=object)[numbers]
