"""Studies: a grid of runs as data, done once each, kept in a store that survives anything."""
