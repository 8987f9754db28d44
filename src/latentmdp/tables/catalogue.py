"""`algorithms()` and `domains()`: what there is, as tables."""

from typing import TYPE_CHECKING

from latentmdp.runtime.choices import ALGORITHMS

if TYPE_CHECKING:
    import pandas as pd


def algorithms() -> "pd.DataFrame":
    """What `learn(model, algorithm=...)` takes: `name, description`, with registered rules.

    >>> "mvp" in set(algorithms().name)
    True
    """
    import pandas as pd  # loads slowly

    from latentmdp.optimism.confidence import RULES

    own = {
        name: (rule.compute.__doc__ or "").strip().split("\n")[0]
        for name, rule in RULES.items()
        if name not in ALGORITHMS
    }
    return pd.DataFrame({**ALGORITHMS, **own}.items(), columns=["name", "description"])


def domains() -> "pd.DataFrame":
    """What `make("name:key=value,...")` takes: `name, description, keys` with their defaults.

    `latentmdp domains NAME` has the meaning and the bounds of each key.

    >>> domains().set_index("name").loc["bandit", "keys"]
    'arms=4, contexts=3, horizon=20, seed=0'
    """
    import pandas as pd  # loads slowly

    from latentmdp.builtin_domains import DOMAINS

    rows = [
        (name, domain.summary, ", ".join(f"{k.name}={k.default_as_text()}" for k in domain.keys))
        for name, domain in DOMAINS.items()
    ]
    return pd.DataFrame(rows, columns=["name", "description", "keys"])
