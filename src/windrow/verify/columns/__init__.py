"""The comparison itself, on columns: no step of Python for each record."""
