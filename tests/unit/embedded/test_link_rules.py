from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windrow.embedded.link_rules import Action, Chunk, DelayLine, Direction, at_match, pass_all

pushes = st.lists(
    st.tuples(
        st.binary(max_size=3),
        st.floats(min_value=0, max_value=10),  # since the one before
        st.floats(min_value=0, max_value=10),  # the delay
    )
)


@given(pushes)
def test_no_change_of_delay_lets_bytes_overtake_others(
    pushed: list[tuple[bytes, float, float]],
) -> None:
    line, now = DelayLine(), 0.0
    for payload, passed, delay in pushed:
        now += passed
        line.push(payload, now, delay)
    came_out = [line.pop(now + 100) for _ in pushed]
    assert came_out == [payload for payload, _, _ in pushed]
    assert line.pop(now + 100) is None
    assert line.size == 0


@given(pushes)
def test_bytes_come_out_no_sooner_than_their_delay(
    pushed: list[tuple[bytes, float, float]],
) -> None:
    line, now, due = DelayLine(), 0.0, []
    for payload, passed, delay in pushed:
        now += passed
        line.push(payload, now, delay)
        due.append(now + delay)
    for (payload, _, _), moment in zip(pushed, due, strict=True):
        assert line.due_at() == moment
        assert line.pop(moment - 1.0) is None
        assert line.pop(moment) == payload
    assert line.due_at() is None


def test_all_that_goes_in_at_one_moment_comes_out_at_one_moment() -> None:
    line = DelayLine()
    for number in range(3):
        line.push(bytes([number]), 1.0, 0.5)
    assert line.size == 3
    assert line.pop(1.49) is None
    assert [line.pop(1.5) for _ in range(4)] == [b"\0", b"\1", b"\2", None]


def test_hook_acts_once_at_the_nth_match_of_its_direction() -> None:
    hook = at_match(2, lambda payload: b"COMMIT" in payload, Action.RESET)

    def ask(payload: bytes, direction: Direction = Direction.TO_SERVICE) -> Action:
        return hook(Chunk(1, direction, payload))

    asked = [
        ask(b"COMMIT"),
        ask(b"COMMIT", Direction.TO_CLIENT),
        ask(b"INSERT"),
        ask(b"COMMIT"),
        ask(b"COMMIT"),
    ]
    assert asked == [Action.PASS, Action.PASS, Action.PASS, Action.RESET, Action.PASS]


def test_link_without_a_hook_passes_everything() -> None:
    assert pass_all(Chunk(1, Direction.TO_CLIENT, b"x")) is Action.PASS
