"""Who leads: one module per way to decide it."""
