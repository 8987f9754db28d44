def plan_stationary_markov(*a, **k): raise NotImplementedError
