"""Tests of the frames between our own processes."""
