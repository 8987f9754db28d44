"""From counts to models: estimates, draws, and what was never seen."""
