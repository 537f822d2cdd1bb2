"""Where records go: one module per target."""
