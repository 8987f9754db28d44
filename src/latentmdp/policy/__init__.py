"""Policies as graphs: building, checking, running, simplifying; beliefs along them."""
