"""What a log says about a policy that did not make it."""
