"""Logs in, decisions out: from a table of past episodes to a model, its doubts, and a policy."""

from latentmdp.fitting.fits import Fit, fit

__all__ = ["Fit", "fit"]
