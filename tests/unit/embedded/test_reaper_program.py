from __future__ import annotations

from windrow.embedded.reaper_program import read_guarded

GROUP = '["group", "group 7", 7, 700]\n'
DIRECTORY = '["directory", "directory /tmp/x", "/tmp/x"]\n'


def test_what_was_guarded_and_not_released_is_left_to_clear_up() -> None:
    lines = [GROUP, DIRECTORY, '["group", "group 8", 8, 800]\n', '["release", "group 8"]\n']
    assert read_guarded(lines) == ({7: 700}, ["/tmp/x"])


def test_a_pid_guarded_anew_counts_with_its_new_start_time() -> None:
    again = '["group", "group 7", 7, 900]\n'
    assert read_guarded([GROUP, '["release", "group 7"]\n', again]) == ({7: 900}, [])


def test_a_line_cut_short_by_the_parents_end_is_not_acted_upon() -> None:
    assert read_guarded([GROUP, '["directory", "directory /tmp", "/t']) == ({7: 700}, [])
