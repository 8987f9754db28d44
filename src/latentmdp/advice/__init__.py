"""Advice in the middle of an episode: Q-values at a belief, and what to do there."""

from latentmdp.advice.advising import Adviser, adviser
from latentmdp.advice.values import BeliefValues, q_values

__all__ = ["Adviser", "BeliefValues", "adviser", "q_values"]
