"""The chart of the console's home page, as the numbers that its SVG is drawn with."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from conversations.activity import Hour

WIDTH, HEIGHT = 960, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 12, 28
GAP = 2
STEPS = (1, 2, 5, 10)
EVERY = 6  # hours between two labels


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: where its bar stands, and what it says."""

    x: float
    y: float
    width: float
    height: float
    start: datetime
    items: int | None
    estimated: bool
    last: bool
    label: str | None
    label_x: float

    @property
    def said(self) -> str:
        """The number in words."""
        if self.items is None:
            return "not counted"
        return about(self.items) if self.estimated else f"{self.items:,}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the scale."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that the template draws."""

    bars: list[Bar]
    lines: list[Line]
    summary: str
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    base: int = HEIGHT - BOTTOM


def draw(hours: Sequence[Hour]) -> Chart:
    """Return the chart of these hours, oldest first."""
    top = scale(max((hour.items or 0 for hour in hours), default=0))
    inner = HEIGHT - TOP - BOTTOM
    slot = (WIDTH - LEFT - RIGHT) / max(len(hours), 1)
    bars = []
    for position, hour in enumerate(hours):
        # A single item among millions is still something: it gets a bar that can be seen.
        height = max(2.0, inner * hour.items / top) if hour.items else 0.0
        x = LEFT + position * slot
        bars.append(
            Bar(
                x=round(x + GAP / 2, 2),
                y=round(TOP + inner - height, 2),
                width=round(slot - GAP, 2),
                height=round(height, 2),
                start=hour.start,
                items=hour.items,
                estimated=not hour.exact,
                last=position == len(hours) - 1,
                label=label_of(hour.start) if hour.start.hour % EVERY == 0 else None,
                label_x=round(x, 2),
            )
        )
    lines = [Line(round(TOP + inner - inner * part / 4, 2), short(top * part / 4)) for part in (0, 1, 2, 3, 4)]
    return Chart(bars, [line for line in lines if line.label], describe(hours))


def scale(largest: int) -> int:
    """Return the top of the scale: 4, or the next of 4, 8, 20, 40, 80, … that holds the largest bar."""
    power = 1
    while True:
        for step in STEPS[:3]:
            if 4 * step * power >= largest:
                return 4 * step * power
        power *= 10


def short(number: float) -> str:
    """Return a number as the scale shows it."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def about(number: int) -> str:
    """Return an estimate with no more digits than it deserves."""
    return f"≈ {short(float(f'{number:.3g}'))}"


def label_of(start: datetime) -> str:
    return f"{start:%d %b}" if start.hour == 0 else f"{start:%H}:00"


def describe(hours: Sequence[Hour]) -> str:
    """Return in one sentence what the chart shows."""
    total = sum(hour.items or 0 for hour in hours)
    if not total:
        return f"No item was appended in the last {len(hours)} hours."
    busiest = max(hours, key=lambda hour: hour.items or 0)
    say = "{:,}".format if all(hour.exact for hour in hours) else about
    return (
        f"{say(total)} items in {len(hours)} hours; the busiest began at {busiest.start:%Y-%m-%d %H:%M} UTC "
        f"with {say(busiest.items or 0)}."
    )
