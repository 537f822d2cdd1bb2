"""Several relays on one outbox, each row leased to one of them at a time: no order."""
