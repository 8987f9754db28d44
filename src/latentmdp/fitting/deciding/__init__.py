"""From a fitted model to a policy: objectives, safe improvement, the log's own value."""
