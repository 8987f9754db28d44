"""Exact values of policies, by steps and for discounted episodes; and simulated episodes."""
