"""Labels: what journals are described and chosen by, and what registers are made of.

A label set maps names to one or more values and is kept sorted, so that equal sets are equal
values, equal bytes on the wire, and cheap to compare. A selector holds two such sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise

from windrow.journal.errors import InvalidField, field
from windrow.journal.names import valid_path_text, valid_token
from windrow.journal.selectors import Term, format_terms, parse_terms

NAME_LENGTHS = 2, 64
VALUE_LENGTHS = 0, 1024


@dataclass(frozen=True, slots=True, order=True)
class Label:
    """A name and a value; ``prefix`` has a meaning only inside a selector."""

    name: str
    value: str = ""
    prefix: bool = False

    def validate(self) -> None:
        """Check name and value.

        Raises:
            InvalidField: One of them is out of its alphabet or length.
        """
        valid_token(self.name, *NAME_LENGTHS, context="Name")
        valid_path_text(self.value, *VALUE_LENGTHS, context="Value")


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels sorted on name and value, without repeats.

    The constructor takes labels that are already in order, as they come from the wire;
    ``LabelSet.of`` puts them in order.
    """

    labels: tuple[Label, ...] = ()

    @classmethod
    def of(
        cls, labels: Mapping[str, str] | Iterable[tuple[str, str]] | Iterable[Label]
    ) -> LabelSet:
        """A set of a mapping, of pairs, or of labels, in whatever order."""
        pairs: Iterable[object] = labels.items() if isinstance(labels, Mapping) else labels
        return cls(_unique(sorted(map(_as_label, pairs))))

    def __iter__(self) -> Iterator[Label]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __bool__(self) -> bool:
        return bool(self.labels)

    def names(self) -> tuple[str, ...]:
        """Every name once, sorted."""
        return tuple(name for name, _ in groupby(self.labels, _name))

    def values(self, name: str) -> tuple[str, ...]:
        """The values of ``name``, sorted; empty if it has none."""
        return tuple(label.value for label in self.labels if label.name == name)

    def value(self, name: str) -> str | None:
        """The first value of ``name``, or ``None``."""
        return next((label.value for label in self.labels if label.name == name), None)

    def union(self, other: LabelSet) -> LabelSet:
        """All names of both; a name in both keeps the values it has here."""
        own = set(self.names())
        added = [label for label in other.labels if label.name not in own]
        return LabelSet(tuple(sorted((*self.labels, *added)))) if added else self

    def assigned(self, other: LabelSet) -> LabelSet:
        """All names of both; a name in both takes the values of ``other``."""
        return other.union(self)

    def intersect(self, other: LabelSet) -> LabelSet:
        """The names whose values are the same in both."""
        return self._where(other, is_equal=True)

    def subtract(self, other: LabelSet) -> LabelSet:
        """The names whose values are not all the same in both."""
        return self._where(other, is_equal=False)

    def without(self, name: str) -> LabelSet:
        """This set without any value of ``name``."""
        return LabelSet(tuple(label for label in self.labels if label.name != name))

    def validate(self, *, in_selector: bool = False) -> None:
        """Check every label and their order.

        Raises:
            InvalidField: A label is malformed, out of order, or repeated; a name has both an
                empty and another value; or a prefix stands outside a selector.
        """
        for index, label in enumerate(self.labels):
            with field(f"Labels[{index}]"):
                label.validate()
                if label.prefix and not in_selector:
                    raise InvalidField("Prefix", "only a selector may hold a prefix")
        for index, (left, right) in enumerate(pairwise(self.labels), start=1):
            _check_neighbours(index, left, right)

    def _where(self, other: LabelSet, *, is_equal: bool) -> LabelSet:
        kept = [
            label
            for name, group in groupby(self.labels, _name)
            for label in _if_equal(tuple(group), other.values(name), is_equal)
        ]
        return self if len(kept) == len(self.labels) else LabelSet(tuple(kept))


EMPTY = LabelSet()
"""No labels at all; as registers, what every selector matches."""


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Which label sets are meant.

    Of ``include`` every name must be met, by any one of its values; of ``exclude`` nothing may
    be met. An empty value meets every value of its name, and an empty selector every set.
    """

    include: LabelSet = EMPTY
    exclude: LabelSet = EMPTY

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """The selector written as in ``windrow.journal.selectors``.

        Raises:
            InvalidField: It is not of that grammar, or a name or value is not allowed.
        """
        terms = parse_terms(text)
        selector = cls(_labels_of(terms, excluded=False), _labels_of(terms, excluded=True))
        with field("Selector"):
            selector.validate()
        return selector

    def __str__(self) -> str:
        return format_terms((*_terms_of(self.include, False), *_terms_of(self.exclude, True)))

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude)

    def matches(self, labels: LabelSet) -> bool:
        """Whether ``labels`` are among those meant."""
        if any(_is_met(wanted, labels) for wanted in self.exclude):
            return False
        return all(
            any(_is_met(wanted, labels) for wanted in alternatives)
            for _, alternatives in groupby(self.include, _name)
        )

    def validate(self) -> None:
        """Check both sets.

        Raises:
            InvalidField: A label is malformed or out of order.
        """
        with field("Include"):
            self.include.validate(in_selector=True)
        with field("Exclude"):
            self.exclude.validate(in_selector=True)


def _is_met(wanted: Label, labels: LabelSet) -> bool:
    if not wanted.value:
        return any(label.name == wanted.name for label in labels)
    if wanted.prefix:
        return any(value.startswith(wanted.value) for value in labels.values(wanted.name))
    return wanted.value in labels.values(wanted.name)


def _labels_of(terms: tuple[Term, ...], excluded: bool) -> LabelSet:
    return LabelSet.of(
        Label(term.name, value, term.prefix)
        for term in terms
        if term.excluded == excluded
        for value in term.values or ("",)
    )


def _terms_of(labels: LabelSet, excluded: bool) -> Iterator[Term]:
    for name, group in groupby(labels, _name):
        members = tuple(group)
        for prefix in (False, True):
            values = tuple(label.value for label in members if label.prefix == prefix)
            if values:
                yield Term(name, tuple(filter(None, values)), prefix, excluded)


def _name(label: Label) -> str:
    return label.name


def _as_label(item: object) -> Label:
    return item if isinstance(item, Label) else Label(*item)  # type: ignore[misc]


def _unique(ordered: list[Label]) -> tuple[Label, ...]:
    """One label per name and value. Of two that differ in ``prefix`` the wider one stays."""
    return tuple({(label.name, label.value): label for label in ordered}.values())


def _if_equal(
    labels: tuple[Label, ...], values: tuple[str, ...], is_equal: bool
) -> tuple[Label, ...]:
    same = tuple(label.value for label in labels) == values
    return labels if same == is_equal else ()


def _check_neighbours(index: int, left: Label, right: Label) -> None:
    if (left.name, left.value) >= (right.name, right.value):
        raise InvalidField(
            f"Labels[{index}]",
            f"must sort after its predecessor"
            f" ({right.name}={right.value} follows {left.name}={left.value})",
        )
    if left.name == right.name and not left.value:
        raise InvalidField(
            f"Labels[{index}]", f"label {left.name} has both an empty value and {right.value}"
        )
