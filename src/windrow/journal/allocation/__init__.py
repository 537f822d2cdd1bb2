"""Which brokers hold which journals: decided by one of them, and brought about step by step."""
