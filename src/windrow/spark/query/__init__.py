"""How the processors of a graph become queries, and what their sources and sinks do."""
