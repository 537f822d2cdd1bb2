from __future__ import annotations

import os

from windrow.embedded.groups import Process, family_of, find_process, parse_stat


def process(pid: int, parent: int, group: int, session: int, state: str = "S") -> Process:
    return Process(pid, parent, group, session, state, start_time=100)


def test_a_programs_name_may_hold_brackets_and_blanks() -> None:
    stat = "42 (a) b (c) R 7 41 40 " + " ".join(str(field) for field in range(7, 30))
    found = parse_stat(stat)
    assert (found.pid, found.state, found.parent, found.group, found.session) == (
        42,
        "R",
        7,
        41,
        40,
    )
    assert found.start_time == 22


def test_we_find_ourselves_with_our_parent_and_group() -> None:
    found = find_process(os.getpid())
    assert found is not None
    assert (found.parent, found.group, found.session) == (os.getppid(), os.getpgrp(), os.getsid(0))


def test_a_pid_that_is_not_there_is_no_process() -> None:
    assert find_process(2**22 + 1) is None  # the kernel gives no pid above 2²²


def test_family_holds_group_session_and_whatever_descends_from_them() -> None:
    processes = [
        process(1, 0, 1, 1),
        process(10, 1, 10, 10),  # the leader
        process(11, 1, 10, 10),  # of its group, its parent gone
        process(12, 1, 12, 10),  # of its session, in another group
        process(13, 10, 13, 13),  # its child in a session of its own: a PostgreSQL backend
        process(14, 13, 14, 14),  # whose child is one too
        process(15, 11, 15, 15),  # descends from a member, not from the leader
        process(20, 1, 20, 20),  # a stranger
        process(21, 20, 20, 20),
    ]
    assert {p.pid for p in family_of(10, processes)} == {10, 11, 12, 13, 14, 15}


def test_family_of_a_member_is_not_that_of_its_leader() -> None:
    processes = [process(10, 1, 10, 10), process(11, 10, 10, 10), process(12, 11, 10, 10)]
    assert {p.pid for p in family_of(11, processes)} == {11, 12}


def test_the_ended_are_left_out_though_their_children_are_not() -> None:
    processes = [process(10, 1, 10, 10, state="Z"), process(11, 10, 11, 11)]
    assert [p.pid for p in family_of(10, processes)] == [11]
