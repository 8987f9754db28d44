"""The best policy with memory: searches over beliefs, with bounds."""
