"""Runs the queries of a graph, watches them, and mends what a person has to decide upon."""
