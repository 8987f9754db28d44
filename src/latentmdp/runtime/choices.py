"""What can be chosen by name, with a line about each: for help, completion and `lm.algorithms()`.

Light, so that `latentmdp --help` stays quick; a test sees to it that these are the names which the
code knows.
"""

CLASSES = {
    "history": "with memory of the episode so far: the best of all policies",
    "markov": "of step and state alone",
}

ALGORITHMS = {
    "mvp": "the paper's Algorithm 3: a bonus by the variance, Eq. (3)",
    "bernstein": "the paper's Algorithm 2: intervals around each probability, Eq. (2)",
    "lucrl": "Kwon et al. 2021 with hindsight: a flat bonus, values cut at 1",
    "lucrl-uncapped": "the same without the cut, as in their paper",
    "ucrl": "an L1 ball around each row (Weissman et al. 2003)",
    "greedy": "the estimates as they are, without optimism where there are counts",
    "psrl": "a draw from the posterior at doublings only, so it may stay wrong for long",
    "psrl-episode": "a draw from the posterior after every episode, at most 1e5 of them",
    "random": "any Markov policy, drawn anew at each update",
    "oracle": "the optimal policy of the true model",
}

METHODS = {
    "history": {
        "auto": "layers and grid side by side, most of the work for the one whose gap falls",
        "exact": "as auto, to the end whatever the gap",
        "layers": "one layer per belief: where beliefs merge, as in mazes",
        "grid": "a two-sided grid of beliefs with an exact tree above it",
    },
    "markov": {
        "auto": "ascent first, then branch until the gap is closed",
        "ascent": "coordinate ascent with random kicks, bounded by knowing the context",
        "branch": "branch and bound",
        "wsu": "weight-select-update (Steimle et al. 2021), a baseline",
        "mean": "the optimal policy of the averaged model, a baseline",
        "qmdp": "the best action if the context were told after it, a baseline",
    },
}

ESTIMATORS = {
    "dr": "doubly robust: the values of MODEL as first guesses, corrected by the log",
    "pdis": "importance sampling, each reward by the decisions before it",
    "is": "importance sampling by whole episodes",
    "wis": "the same, divided by the sum of the weights: less noise, a small bias",
    "model": "the value in a model that is fitted to the log",
}
