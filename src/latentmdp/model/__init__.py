"""`LatentMDP` and its parts: canonical rows, symbols, checks of what is given, totals, labels."""
