"""A memoized method is called once for equal arguments, and each object has its own results."""

from __future__ import annotations

from rainbow_sched.matching.memo import Memoized


class Doubling:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    @Memoized
    def doubled(self, *numbers: int) -> tuple[int, ...]:
        self.calls.append(numbers)
        return tuple(2 * number for number in numbers)


def test_equal_arguments_call_the_method_once() -> None:
    one = Doubling()
    assert [one.doubled(1, 2), one.doubled(1, 2), one.doubled(), one.doubled(2)] == [(2, 4), (2, 4), (), (4,)]
    assert one.calls == [(1, 2), (), (2,)]


def test_objects_do_not_share_results() -> None:
    one, other = Doubling(), Doubling()
    assert one.doubled(1) == other.doubled(1)
    assert one.calls == other.calls == [(1,)]
