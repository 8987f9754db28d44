"""Models as pandas tables, one row per outcome; see `LatentMDP.to_frame`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Array, Ints
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.model.latent_mdp import LatentMDP


def model_frame(model: "LatentMDP", names: bool = True) -> "pd.DataFrame":
    """See `LatentMDP.to_frame`."""
    import pandas as pd  # loads slowly

    c = model.outcome_columns()
    columns: dict[str, Any] = {"step": c["step"]} if model.steps > 1 else {}
    columns |= _labels(model, names, c["context"], c["state"], c["action"], c["next"])
    if model.readings > 1:
        columns["reading"] = named(model.reading_names if names else None, c["reading"])
        if names and model.reading_names is not None:  # in their order, not as they appear
            kinds = list(dict.fromkeys(model.reading_names))
            columns["reading"] = pd.Categorical(columns["reading"], categories=kinds)
    columns |= {"probability": c["prob"], "reward": c["reward"], "weight": model.w[c["context"]]}
    return pd.DataFrame({**columns, "first": model.nu[c["context"], c["state"]]})


def _labels(
    model: "LatentMDP",
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
