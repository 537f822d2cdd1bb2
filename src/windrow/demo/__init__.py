"""The whole road on embedded parts, as far as it is built, with a verdict of its own."""

from windrow.demo.errors import DemoStalled
from windrow.demo.parts import Part, installed_parts
from windrow.demo.story import Demonstration, demonstrate

__all__ = ["DemoStalled", "Demonstration", "Part", "demonstrate", "installed_parts"]
