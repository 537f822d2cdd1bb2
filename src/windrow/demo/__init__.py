"""The whole road on embedded parts, as far as it is built, with a verdict of its own."""

from windrow.demo.parts import Part, installed_parts
from windrow.demo.story import Demonstration, demonstrate
from windrow.demo.verdict import Verdict, judge

__all__ = ["Demonstration", "Part", "Verdict", "demonstrate", "installed_parts", "judge"]
