"""Where rows are written, each with its high-water in the same step."""
