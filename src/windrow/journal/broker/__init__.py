"""A broker: one process that keeps replicas of journals and serves them."""
