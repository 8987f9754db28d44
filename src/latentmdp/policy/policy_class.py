"""The two classes of policies, by the names that every function takes as `policy_class`."""

from latentmdp.errors import ModelError

POLICY_CLASSES = ("history", "markov")
"""`history`: all policies, with memory of the episode so far; `markov`: step and state alone."""


def check_policy_class(policy_class: object) -> None:
    """Refuse what is not the name of a class."""
    if policy_class not in POLICY_CLASSES:
        names = " or ".join(POLICY_CLASSES)
        raise ModelError(f"policy_class must be {names}; it is {policy_class!r}")
