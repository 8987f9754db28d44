"""The audit: every quantity of the proof, measured on a finished run."""
