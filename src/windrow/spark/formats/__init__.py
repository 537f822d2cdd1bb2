"""The formats that Spark finds by their names, one module each."""
