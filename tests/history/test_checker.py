"""The check itself: a good history is green, and each broken promise is red, by its own name."""

from dataclasses import dataclass, field

import pytest

from tests.history.checker import (
    Answer,
    Append,
    Event,
    Fate,
    Final,
    Kind,
    Log,
    Read,
    Stored,
    Surprise,
    payload_of,
    violations,
)

LOG: Log = ("site", "conversation")
OTHER: Log = ("other-site", "conversation")


def append(call: str, first: int | None, size: int = 1, *, at: float, **given: object) -> Append:
    """Return an append that took from ``at`` to a second later; without ``first`` it was not answered."""
    answers = () if first is None else (Answer(first, first + size - 1, 0),)
    values = {"log": LOG, "fate": Fate.UNKNOWN if first is None else Fate.OK, "answers": answers, **given}
    return Append(call=call, size=size, began=at, ended=at + 1, **values)  # type: ignore[arg-type]


def stored(*calls: tuple[str, int]) -> list[Stored]:
    """Return the items of whole batches, one behind the other, a minute apart."""
    batches = [(number, call, index, size) for number, (call, size) in enumerate(calls) for index in range(size)]
    return [
        Stored(seq, f"2026-01-01T00:{number:02}:00.000000Z", payload_of(call, index, size))
        for seq, (number, call, index, size) in enumerate(batches)
    ]


@dataclass
class Story:
    """A history without a fault, to be spoiled: three batches, a refused and a lost call, two reads."""

    events: list[Event] = field(
        default_factory=lambda: [
            append("a", 0, 2, at=0, expected_seq=0, answers=(Answer(0, 1, 0), Answer(0, 1, 0))),
            append("b", 2, 3, at=10),
            append("c", 5, 1, at=20),
            append("refused", None, 2, at=21, fate=Fate.REFUSED),
            append("whole", None, 2, at=22),
            append("nothing", None, 2, at=23),
            append("elsewhere", 0, 1, at=0, log=OTHER),
        ]
    )
    items: list[Stored] = field(default_factory=lambda: stored(("a", 2), ("b", 3), ("c", 1), ("whole", 2)))
    listed: list[str] = field(default_factory=lambda: ["conversation"])
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.events += [
            Read(LOG, began=12, ended=13, items=tuple(self.items[1:5]), to_the_end=True),
            Read(LOG, began=30, ended=31, items=tuple(self.items[:3]), to_the_end=False),
        ]

    def kinds(self) -> set[Kind]:
        """Return how the promises are broken."""
        final = Final(
            {LOG: self.items, OTHER: stored(("elsewhere", 1))},
            {"site": self.listed, "other-site": ["conversation"]},
            self.refused,
        )
        return {violation.kind for violation in violations(self.events, final)}

    def renumber(self, items: list[Stored]) -> None:
        """Make these the items, numbered anew, and forget the reads, which would be red as well."""
        self.items = [item._replace(seq=seq) for seq, item in enumerate(items)]
        self.events = [event for event in self.events if not isinstance(event, Read)]


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_good_history_is_green(story: Story) -> None:
    assert story.kinds() == set()


def test_an_answer_that_must_not_be_is_red(story: Story) -> None:
    story.events.append(Surprise("500 internal_error"))
    assert story.kinds() == {Kind.SURPRISE}


def test_a_log_that_cannot_be_read_is_red(story: Story) -> None:
    story.refused.append("500 corrupted")
    assert story.kinds() == {Kind.SURPRISE}


def test_a_lost_batch_is_red(story: Story) -> None:
    story.renumber(story.items[:5] + story.items[6:])
    assert story.kinds() == {Kind.LOST}


def test_a_log_that_is_gone_altogether_is_red(story: Story) -> None:
    story.renumber([])
    assert story.kinds() == {Kind.LOST, Kind.LISTING}


def test_a_batch_that_is_there_twice_is_red(story: Story) -> None:
    story.renumber(story.items + story.items[5:6])
    assert Kind.TWICE in story.kinds()


def test_an_unknown_batch_that_is_there_twice_is_red(story: Story) -> None:
    story.renumber(story.items + story.items[6:8])
    assert Kind.TWICE in story.kinds()


def test_half_an_acknowledged_batch_is_red(story: Story) -> None:
    story.renumber(story.items[:4] + story.items[5:])
    assert Kind.TORN in story.kinds()


def test_half_an_unknown_batch_is_red(story: Story) -> None:
    story.renumber(story.items[:-1])
    assert story.kinds() == {Kind.TORN}


def test_a_batch_with_another_between_is_red(story: Story) -> None:
    story.renumber([*story.items[:4], story.items[5], story.items[4], *story.items[6:]])
    assert Kind.TORN in story.kinds()


def test_a_batch_out_of_order_is_red(story: Story) -> None:
    story.renumber([*story.items[:-2], story.items[-1], story.items[-2]])
    assert story.kinds() == {Kind.TORN}


def test_a_batch_at_another_place_is_red(story: Story) -> None:
    a, b, c, rest = story.items[:2], story.items[2:5], story.items[5:6], story.items[6:]
    story.renumber([*a, *c, *b, *rest])
    assert {Kind.MISPLACED} <= story.kinds()


def test_an_answer_of_another_length_is_red(story: Story) -> None:
    story.events[1] = append("b", 2, 3, at=10, answers=(Answer(2, 3, 0),))
    assert story.kinds() == {Kind.MISPLACED}


def test_a_refused_batch_that_is_there_is_red(story: Story) -> None:
    story.renumber(stored(("a", 2), ("b", 3), ("c", 1), ("whole", 2), ("refused", 2)))
    assert story.kinds() == {Kind.REFUSED}


def test_what_nobody_sent_is_red(story: Story) -> None:
    story.renumber([*story.items, story.items[-1]._replace(payload='{"call":"x","item":0}')])
    assert story.kinds() == {Kind.FOREIGN}


def test_what_was_sent_to_another_site_is_red(story: Story) -> None:
    story.renumber(story.items + stored(("elsewhere", 1)))
    assert Kind.FOREIGN in story.kinds()


def test_a_payload_that_was_printed_anew_is_red(story: Story) -> None:
    story.renumber(
        [*story.items[:-1], story.items[-1]._replace(payload=story.items[-1].payload.replace("1.0", "1", 1))]
    )
    assert Kind.FOREIGN in story.kinds()


def test_a_hole_is_red(story: Story) -> None:
    story.items = [item if item.seq < 6 else item._replace(seq=item.seq + 1) for item in story.items]
    assert story.kinds() == {Kind.HOLE}


def test_a_number_that_is_given_twice_is_red(story: Story) -> None:
    story.items[7] = story.items[7]._replace(seq=6)
    assert Kind.HOLE in story.kinds()


def test_a_clock_that_goes_back_is_red(story: Story) -> None:
    story.renumber([*story.items[:5], story.items[5]._replace(recorded_at="2025-12-31T23:59:59.999999Z")])
    assert story.kinds() == {Kind.CLOCK}


def test_two_times_in_a_batch_are_red(story: Story) -> None:
    story.items[7] = story.items[7]._replace(recorded_at="2026-01-01T00:59:00.000000Z")
    assert story.kinds() == {Kind.CLOCK}


def test_another_answer_to_the_same_key_is_red(story: Story) -> None:
    story.events[1] = append("b", 2, 3, at=10, answers=(Answer(2, 4, 0), Answer(3, 5, 0)))
    assert story.kinds() == {Kind.OTHER_ANSWER}


def test_a_broken_fence_is_red(story: Story) -> None:
    story.events[1] = append("b", 2, 3, at=10, expected_seq=1)
    assert story.kinds() == {Kind.FENCE}


def test_a_batch_before_one_that_was_answered_earlier_is_red(story: Story) -> None:
    story.events[0] = append("a", 0, 2, at=15)
    story.events[1] = append("b", 2, 3, at=10)
    assert Kind.ORDER in story.kinds()


def test_batches_that_overlap_in_time_may_stand_in_either_order(story: Story) -> None:
    story.events[1] = append("b", 2, 3, at=19.5)
    story.events[2] = append("c", 5, 1, at=19.2)
    story.events = story.events[:-2]
    assert story.kinds() == set()


def test_a_read_that_is_no_part_of_a_later_one_is_red(story: Story) -> None:
    items = (story.items[0], story.items[1], story.items[3]._replace(seq=2))
    story.events.append(Read(LOG, began=12, ended=13, items=items, to_the_end=False))
    assert story.kinds() == {Kind.UNSTABLE}


def test_an_item_that_was_read_and_is_gone_is_red(story: Story) -> None:
    del story.items[-1]
    read = Read(LOG, began=40, ended=41, items=(*stored(("a", 2), ("b", 3), ("c", 1), ("whole", 2)),), to_the_end=True)
    story.events.append(read)
    assert Kind.UNSTABLE in story.kinds()


def test_a_read_without_what_was_acknowledged_before_is_red(story: Story) -> None:
    story.events.append(Read(LOG, began=11.5, ended=12, items=tuple(story.items[:2]), to_the_end=True))
    assert story.kinds() == {Kind.STALE}


def test_a_read_behind_an_earlier_read_is_red(story: Story) -> None:
    story.events.append(Read(LOG, began=40, ended=41, items=tuple(story.items), to_the_end=True))
    story.events.append(Read(LOG, began=42, ended=43, items=tuple(story.items[:6]), to_the_end=True))
    assert story.kinds() == {Kind.STALE}


def test_an_empty_read_after_an_acknowledgement_is_red(story: Story) -> None:
    story.events.append(Read(LOG, began=40, ended=41, items=(), to_the_end=True))
    assert story.kinds() == {Kind.STALE}


def test_a_read_before_the_acknowledgement_may_lack_the_batch(story: Story) -> None:
    story.events.append(Read(LOG, began=10.5, ended=12, items=tuple(story.items[:2]), to_the_end=True))
    assert story.kinds() == set()


@pytest.mark.parametrize("listed", [[], ["conversation", "another"], ["conversation", "conversation"]])
def test_a_list_of_other_conversations_is_red(story: Story, listed: list[str]) -> None:
    story.listed = listed
    assert story.kinds() == {Kind.LISTING}
