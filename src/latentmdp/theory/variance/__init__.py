"""The paper's variance, maximised over policies."""
