"""Planning without a last step: stationary controllers and stationary Markov policies."""
