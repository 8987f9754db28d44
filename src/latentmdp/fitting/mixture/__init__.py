"""Logs without contexts: clustering, EM, and the verdict on the number of contexts."""
