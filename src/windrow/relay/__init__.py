"""From the outbox to a target: machines decide, threads perform, an election says who."""
