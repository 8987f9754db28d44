"""Learners and runs in folders: what is saved, and the checks when it is read."""
