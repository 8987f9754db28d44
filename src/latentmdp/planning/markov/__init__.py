"""The best Markov policy: ascent from below, belief grids and branch and bound from above."""
