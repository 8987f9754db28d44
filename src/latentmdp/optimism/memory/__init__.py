"""Optimistic planning with memory: the Markov class on an augmented model."""
