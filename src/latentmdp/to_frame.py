"""Models as pandas tables, one row per outcome; see `to_frame` of both kinds of models."""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.canonical import Array, Ints

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.model import LatentMDP
    from latentmdp.timed import TimedLatentMDP


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
            "context": named(model.context_names if names else None, context),
            "state": named(model.state_names if names else None, state),
            "action": named(model.action_names if names else None, action),
            "next_state": named(model.state_names if names else None, model.next[listed]),
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
            "context": named(model.context_names if names else None, c.context),
            "state": named(model.state_names if names else None, c.state),
            "action": named(model.action_names if names else None, c.action),
            "next_state": named(model.state_names if names else None, c.next),
            "probability": c.prob.copy(),
            "reward": c.reward.copy(),
            "weight": model.w[c.context],
            "first": model.nu[c.context, c.state],
        }
    )


def named(names: tuple[str, ...] | None, numbers: Ints) -> Array:
    """The names of the numbers, or the numbers where there are no names."""
    return numbers.copy() if names is None else np.array(names, dtype=object)[numbers]
