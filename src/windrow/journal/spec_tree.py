"""Many journal specs as one tree: what they have in common is written once, at the directory.

A directory is a name that ends in a slash; the journals below inherit each of its fields that
they leave unset. ``flatten`` gives the journals of a tree as they are applied, ``hoist`` the tree
of journals as it is shown to a person, ``parse_tree`` and ``format_tree`` its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby, pairwise

from windrow.journal.errors import InvalidField, field
from windrow.journal.names import valid_journal
from windrow.journal.spec import JournalSpec, Suspend
from windrow.journal.spec_algebra import intersect_specs, subtract_specs, union_specs
from windrow.journal.spec_node import ANY_REVISION, CREATE, Node
from windrow.journal.spec_yaml import format_tree, parse_tree


def flatten(tree: Node) -> tuple[Node, ...]:
    """The journals of a tree, sorted by name, with everything they inherit.

    Raises:
        InvalidField: The tree is not well formed, or a journal's spec is not valid.
    """
    _check_node(tree)
    leaves = tuple(_leaves(tree))
    for leaf in leaves:
        with field(leaf.name):
            _check_leaf(leaf)
    return leaves


def hoist(journals: Iterable[Node]) -> Node:
    """The tree of ``journals``: a directory wherever several share one, with what they share.

    The root has an empty name if not all of them share a directory.
    """
    children = _grouped(sorted(journals, key=_name))
    return children[0] if len(children) == 1 else _directory("", children)


def _leaves(node: Node) -> Iterator[Node]:
    if not node.is_directory:
        yield node
        return
    for child in node.children:
        inherited = union_specs(child.spec, node.spec)
        yield from _leaves(replace(child, spec=inherited, delete=child.delete or node.delete))


def _check_node(node: Node) -> None:
    with field(node.name or "(root)"):
        if node.children and not node.is_directory:
            raise InvalidField("Name", "expected a name that ends in '/', since it has children")
        if node.is_directory and node.revision != CREATE:
            raise InvalidField("Revision", "belongs to a journal, not to a directory")
        if node.is_directory and node.spec.suspend != Suspend():
            raise InvalidField("Suspend", "belongs to a journal, not to a directory")
        _check_children(node)
    for child in node.children:
        _check_node(child)


def _check_children(node: Node) -> None:
    for child in node.children:
        if not child.name.startswith(node.name) or child.name == node.name:
            raise InvalidField("Children", f"expected a name below {node.name} ({child.name})")
    for left, right in pairwise(node.children):
        if left.name >= right.name:
            raise InvalidField(
                "Children", f"must be sorted by name ({right.name} follows {left.name})"
            )


def _check_leaf(leaf: Node) -> None:
    if leaf.delete and leaf.revision == CREATE:
        raise InvalidField(
            "Revision",
            f"expected the journal's revision, or {ANY_REVISION} for any, since it is deleted",
        )
    if leaf.revision < ANY_REVISION:
        raise InvalidField("Revision", f"invalid value ({leaf.revision}; expected >= -1)")
    if leaf.delete:
        valid_journal(leaf.name, context="Name")
    else:
        leaf.spec.validate()


def _grouped(journals: Sequence[Node], prefix: str = "") -> tuple[Node, ...]:
    """The nodes directly below ``prefix``; of sorted journals, that all begin with it."""
    nodes: list[Node] = []
    for directory, group in groupby(journals, lambda node: _first_directory(node.name, prefix)):
        members = tuple(group)
        if len(members) == 1 or directory == prefix:
            nodes.extend(members)
            continue
        inner = _grouped(members, directory)
        nodes.append(inner[0] if len(inner) == 1 else _directory(directory, inner))
    return tuple(nodes)


def _first_directory(name: str, prefix: str) -> str:
    """The directory of ``name`` one level below ``prefix``; ``prefix`` if there is none."""
    head, slash, _ = name[len(prefix) :].partition("/")
    return f"{prefix}{head}/" if slash else prefix


def _directory(name: str, children: tuple[Node, ...]) -> Node:
    if not children:
        return Node(JournalSpec(name))
    shared = replace(reduce(intersect_specs, (child.spec for child in children)), name=name)
    below = tuple(replace(child, spec=subtract_specs(child.spec, shared)) for child in children)
    return Node(shared, children=below)


def _name(node: Node) -> str:
    return node.name


__all__ = ["ANY_REVISION", "CREATE", "Node", "flatten", "format_tree", "hoist", "parse_tree"]
