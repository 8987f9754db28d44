"""Planning with certificates in known latent MDPs."""

from latentmdp.planning.plan import Plan, plan

__all__ = ["Plan", "plan"]
