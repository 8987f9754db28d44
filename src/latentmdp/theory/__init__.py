"""The paper's theory made measurable: variance, bounds, symmetrisation, the audit of the proof."""
