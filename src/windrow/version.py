"""The version of Windrow, in its one place."""

__version__ = "0.1.0.dev0"
