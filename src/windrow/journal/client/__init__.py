"""The client of journals: appends, reads, lists, and the ways to go on when brokers fail."""
