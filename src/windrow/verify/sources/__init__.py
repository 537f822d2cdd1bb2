"""Where records are read from: databases, files, Kafka, journals, receivers."""
