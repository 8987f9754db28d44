"""A bonus of one's own, and how it does against the paper's: ten lines, and a study.

`careful_bonus.toml` beside this file is the same study at a larger size. Workers import this file
by its path; what stands below `if __name__` is for the person who runs it.
"""

import numpy as np

from latentmdp.optimism import Bonus, register


def careful(evidence, setting, rng):
    """MVP's variance term with a smaller constant, and a 1/N term that does not grow with S."""
    N = np.maximum(evidence.N, 1)
    c1 = setting.scale * np.sqrt(2 * setting.iota / N)
    return Bonus(c1=c1, c2=setting.scale * 2 * setting.iota / N, c3=0.0)


register("careful", "bonus", careful)


if __name__ == "__main__":
    import latentmdp as lm

    own = {"algorithm": "careful", "python": __file__}
    study = lm.sweep("riverswim:states=4,contexts=2,horizon=8", ["mvp", own], seeds=3, episodes=1e6)
    print(study.table().groupby("algorithm")["regret"].describe()[["count", "mean", "std"]])
