"""The panels of the viewer: layers, lists, timeline with ghost, errors and events, sliders over a posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.posterior import Posterior
from twinproof.nouns.theta import Theta
from twinproof.view.motion import Apart, Motion
from twinproof.view.opened import Recorded, Row, chosen, fields, line
from twinproof.view.playing import RESTARTS_S, restarts
from twinproof.view.stage import LAYERS, Stage

if TYPE_CHECKING:
    from viser import ViserServer

NAMES = {
    "mesh": "surfaces",
    "splats": "splats (appearance)",
    "collision": "collision parts",
    "gap": "gap heat map",
    "camera": "cameras",
}
PAGE = 10  # trials on a page of the list
STEP_S = 0.01
ERROR_COLOUR, FAR_COLOUR = "#d62728", "#2678ff"
STEPS = 200  # of a parameter's slider


class Layers:
    """A box for each layer that the twin has."""

    def __init__(self, server: ViserServer, stage: Stage) -> None:
        self.boxes = dict[str, Any]()
        with server.gui.add_folder("show"):
            for layer in LAYERS:
                if stage.layers[layer]:
                    box = server.gui.add_checkbox(NAMES[layer], stage.layers[layer][0].visible)
                    box.on_update(lambda event, layer=layer: stage.show(layer, event.target.value))
                    self.boxes[layer] = box
            if stage.look.gaps:
                far = f"{1000 * stage.look.gap_m:.1f}"
                text = f"heat map: surface to collision parts, blue 0 mm to red {far} mm and more"
                server.gui.add_markdown(text)
            for note in stage.look.notes:
                server.gui.add_markdown(plain(note))


class RowList:
    """Trials or recorded episodes as buttons, a page at a time, chosen by those of their fields that differ."""

    def __init__(self, server: ViserServer, title: str, rows: Sequence[Row], choose: Callable[[Row], None]) -> None:
        self._server, self._title, self._rows, self._choose = server, title, tuple(rows), choose
        self._shown: list[Any] = []
        values = {name: tuple(dict.fromkeys(fields(row)[name] for row in rows)) for name in fields(rows[0])}
        with server.gui.add_folder(title) as self._folder:
            self._rules = {
                name: server.gui.add_dropdown(name, ("all", *found)) for name, found in values.items() if len(found) > 1
            }
            pages = max(1, -(-len(rows) // PAGE))
            self._page = server.gui.add_slider("page", 1, max(2, pages), 1, 1, visible=pages > 1)
            for each in (*self._rules.values(), self._page):
                each.on_update(lambda _: self._fill())
        self._marked: Row | None = None
        self._fill()

    def mark(self, row: Row) -> None:
        """Shows which row is on the stage; none of these, where it is of another list."""
        self._marked = row
        self._fill()

    def _fill(self) -> None:
        found = chosen(self._rows, **{name: str(box.value) for name, box in self._rules.items()})
        first = PAGE * (int(self._page.value) - 1)
        wanted = found[first : first + PAGE] or found[:PAGE]
        for each in self._shown:
            each.remove()
        self._shown = []
        with self._folder:
            for row in wanted:
                here = row is self._marked
                button = self._server.gui.add_button(line(row), color="blue" if here else "gray")
                button.on_click(lambda _, row=row: self._choose(row))
                self._shown.append(button)
            self._shown.append(self._server.gui.add_markdown(f"{len(found)} of {len(self._rows)} {self._title}"))


class Timeline:
    """A slider in seconds, play, the ghost, the error against it, and jumps to events."""

    def __init__(
        self, server: ViserServer, seek: Callable[[float], None], ghosts: Sequence[str], haunt: Callable[[str], None]
    ) -> None:
        self._server, self._end_s = server, 1.0
        self._extra: list[Any] = []
        self._plot: Any = None
        self._told: Apart | None = None
        self._marked = -1  # the moment of the plot that its cursor is at
        with server.gui.add_folder("timeline") as self._folder:
            self._slider = server.gui.add_slider("time (s)", 0.0, 1.0, STEP_S, 0.0)
            self._play = server.gui.add_checkbox("play", False)
            first = "twin" if "twin" in ghosts else ghosts[0]
            self._ghost = server.gui.add_dropdown("ghost", tuple(ghosts), initial_value=first)
            words = {restarts(each): each for each in RESTARTS_S}
            self._anew, self._restarts = server.gui.add_dropdown("replay", tuple(words), visible=False), words
            self._text = server.gui.add_markdown("")
        self._slider.on_update(lambda event: seek(event.target.value))
        # What is set from here is on the stage already; only a person asks for another one.
        self._ghost.on_update(lambda event: haunt(event.target.value) if event.client is not None else None)
        self._anew.on_update(lambda _: haunt(self.ghost))

    @property
    def ghost(self) -> str:
        """Whose ghost is asked for."""
        return str(self._ghost.value)

    @ghost.setter
    def ghost(self, which: str) -> None:
        if self._ghost.value != which:
            self._ghost.value = which

    @property
    def restart_s(self) -> float:
        """How often a replay is to start anew from the readings."""
        return self._restarts[str(self._anew.value)]

    @property
    def playing(self) -> bool:
        """Whether time moves on by itself."""
        return bool(self._play.value)

    @property
    def time_s(self) -> float:
        """The moment that is shown."""
        return float(self._slider.value)

    @property
    def text(self) -> str:
        """What is said below the slider."""
        return str(self._text.content)

    @property
    def cursor_s(self) -> float | None:
        """Where the cursor of the error's plot stands; None where no error is shown."""
        return None if self._plot is None or self._told is None else float(self._told.time_s[self._marked])

    def point(self, time_s: float) -> None:
        """Moves the cursor of the error's plot."""
        if self._plot is None or self._told is None:
            return
        at = int(np.argmin(np.abs(self._told.time_s - time_s)))
        if at != self._marked:
            self._marked = at
            self._plot.data = (*self._plot.data[:-1], _only(self._plot.data[1], [at]))

    def advance(self, by_s: float) -> None:
        """Moves time on, from the end to the start."""
        after = self.time_s + by_s
        self._slider.value = round(after, 3) if after <= self._end_s else 0.0

    def say(self, text: str) -> None:
        """A sentence instead of the error."""
        self._text.content = plain(text)

    def name(self, row: Row) -> None:
        """What is played from now on: only recorded episodes are replayed."""
        self._anew.visible = isinstance(row, Recorded)

    def load(self, motion: Motion, told: Apart | None, ghost: str | None) -> None:
        """Another episode, with its events, and its error against the ghost where there is one."""
        self._end_s = float(motion.time_s[-1])
        if self.time_s > self._end_s:
            self._slider.value = 0.0
        self._slider.max = max(self._end_s, STEP_S)
        for each in self._extra:
            each.remove()
        self._extra, self._plot, self._told = [], None, told
        words = [f"**{plain(motion.label)}**"]
        if told is not None and ghost is not None:
            words.append(f"ghost: {plain(ghost)}")
            words.append(
                f"RMSE {told.total_rmse:.3g} {told.unit}; farthest part {1000 * float(told.farthest_m.max()):.1f} mm"
            )
        self._text.content = "\n\n".join(words)
        with self._folder:
            if told is not None:
                self._plot = self._error(told, motion)
                self._extra.append(self._plot)
            for event in motion.events:
                button = self._server.gui.add_button(f"{event.name} at {event.time_s:.2f} s", color="gray")
                button.on_click(lambda _, at=event.time_s: self.jump(at))
                self._extra.append(button)

    def jump(self, time_s: float) -> None:
        """Shows a moment."""
        self._slider.value = float(np.clip(time_s, 0.0, self._end_s))

    def _error(self, told: Apart, motion: Motion) -> Any:
        from viser import uplot

        error, unit = _readable(told.rmse, told.unit)
        far, length = _readable(told.farthest_m, "m")
        rows = [told.time_s, error, far]
        series = [
            uplot.Series(label="s"),
            uplot.Series(label=f"RMSE ({unit}, left)", stroke=ERROR_COLOUR, width=2),
            uplot.Series(label=f"farthest part ({length}, right)", scale="far", stroke=FAR_COLOUR, width=2),
        ]
        points = uplot.Series_Points(show=True, size=8)
        if motion.events:
            when = [int(np.argmin(np.abs(told.time_s - event.time_s))) for event in motion.events]
            rows.append(_only(np.zeros(len(told.time_s)), when))
            series.append(uplot.Series(label="events", stroke="#222222", width=0, points=points))
        self._marked = int(np.argmin(np.abs(told.time_s - self.time_s)))
        rows.append(_only(error, [self._marked]))
        dot = uplot.Series_Points(show=True, size=11, fill="#111111")
        series.append(uplot.Series(label="now", stroke="#111111", width=0, points=dot))
        # Stated, since a series that begins with no number would leave the axis without a range.
        tops = {"y": float(error.max()), "far": float(far.max())}
        scales = {name: uplot.Scale(range=(0.0, 1.08 * top or 1.0)) for name, top in tops.items()}
        axes = (
            uplot.Axis(),
            uplot.Axis(scale="y", stroke=ERROR_COLOUR),
            uplot.Axis(scale="far", side=1, stroke=FAR_COLOUR, grid=uplot.Axis_Grid(show=False)),
        )
        return self._server.gui.add_uplot(
            tuple(rows), tuple(series), scales={"x": uplot.Scale(time=False), **scales}, axes=axes,
            legend=uplot.Legend(live=False), aspect=1.8,
        )  # fmt: skip


def _readable(values: np.ndarray, unit: str) -> tuple[np.ndarray, str]:
    """Radians or metres in thousandths where they are few: an axis has three decimals."""
    small = unit in ("rad", "m") and float(np.max(values)) < 0.5
    return (1000 * values, f"m{unit}") if small else (values, unit)


def _only(values: np.ndarray, places: Sequence[int]) -> np.ndarray:
    """The values at some places, and nothing elsewhere."""
    found = np.full(len(values), np.nan)
    found[list(places)] = values[list(places)]
    return found


class Sliders:
    """A slider for each parameter over the span of its draws, and one that sets all of them to one draw."""

    def __init__(self, server: ViserServer, posterior: Posterior, ask: Callable[[Theta], None]) -> None:
        self._posterior, self._ask = posterior, ask
        self._setting = False
        point = posterior.point()
        self._each = dict[str, Any]()
        with server.gui.add_folder("posterior", expand_by_default=False):
            server.gui.add_markdown("The ghost again, with these parameters and the commands that were sent.")
            last = len(posterior.draws) - 1
            self._draw = server.gui.add_slider("draw", 0, max(last, 1), 1, 0)
            for info in posterior.parameters:
                low, high = (float(x) for x in np.percentile(posterior.column(info.id), (0, 100)))
                step = max((high - low) / STEPS, 1e-12)
                unit = f" ({info.unit})" if info.unit else ""
                start = float(np.clip(point[info.id], low, max(high, low + step)))
                box = server.gui.add_slider(f"{info.id}{unit}", low, max(high, low + step), step, start)
                box.on_update(lambda _: self._moved())
                self._each[info.id] = box
        self._draw.on_update(lambda event: self.take(int(event.target.value)))

    @property
    def theta(self) -> Theta:
        """What the sliders say."""
        return Theta({id: float(box.value) for id, box in self._each.items()})

    def _moved(self) -> None:
        if not self._setting:
            self._ask(self.theta)

    def take(self, k: int) -> None:
        """Sets all of them to one draw."""
        self._setting = True
        try:
            for id, value in zip(self._posterior.ids, self._posterior.draws[k].tolist(), strict=True):
                self._each[id].value = value
        finally:
            self._setting = False
        self._ask(Theta(dict(zip(self._posterior.ids, self._posterior.draws[k].tolist(), strict=True))))


def plain(text: str) -> str:
    """Text from a folder, so that Markdown shows it as it is: no links, no HTML."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]()<>#+-!|~&" else letter for letter in text)
