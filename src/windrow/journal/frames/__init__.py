"""Calls between our own processes: the messages of the protocol, without gRPC around them."""
