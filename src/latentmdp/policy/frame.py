"""A policy as a pandas table, one row per node; see `PolicyGraph.to_frame`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.policy.belief import reach_weights
from latentmdp.tables.to_frame import named

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.policy.graph import PolicyGraph


def policy_frame(
    policy: "PolicyGraph", model: "LatentMDP | None", names: bool = True
) -> "pd.DataFrame":
    """See `PolicyGraph.to_frame`. `O(N M Gamma)` with a model, which the policy fits."""
    import pandas as pd  # loads slowly

    if model is None:
        return pd.DataFrame(
            {
                "node": np.arange(policy.N),
                "step": policy.step,
                "state": policy.state,
                "action": policy.action,
            }
        )
    weight = reach_weights(model, policy)
    reach = weight.sum(axis=1)
    shares = weight / np.where(reach > 0.0, reach, 1.0)[:, None]
    shares.flags.writeable = False
    beliefs: list[Any] = [b if r > 0.0 else None for b, r in zip(shares, reach, strict=True)]
    return pd.DataFrame(
        {
            "node": np.arange(policy.N),
            "step": policy.step,
            "state": named(model.state_names if names else None, policy.state),
            "action": named(model.action_names if names else None, policy.action),
            "reach": reach,
            "belief": pd.Series(beliefs, dtype=object),
        }
    )
