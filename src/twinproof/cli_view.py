"""The command of the viewer: a folder in the browser, as one page, or in a headset."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tyro.conf import Positional

from twinproof.nouns.errors import ConfigError

if TYPE_CHECKING:
    from twinproof.nouns.signal import Signal
    from twinproof.nouns.theta import Theta
    from twinproof.nouns.trace import Trace
    from twinproof.nouns.twin import Twin, TwinCamera
    from twinproof.sim.anatomy import Anatomy, Link
    from twinproof.sim.scene import Scene
    from twinproof.sim.surface import Surface
    from twinproof.view.look import Eye, Look, Piece
    from twinproof.view.motion import Apart, Motion
    from twinproof.view.opened import Opened, Recorded, Row
    from twinproof.view.playing import Handed

BEFORE_S = 1.0  # longer than any delay


@dataclass(frozen=True)
class View:
    """Look at a Twin, Trials, Evidence or a whole run: in the browser, as one HTML file, or in a headset.

    examples:
      twinproof view run                                  the whole run; prints an address with a token
      twinproof view twin
      twinproof view trials --twin twin --posterior posterior
      twinproof view twin --split split --posterior posterior   recorded episodes beside the twin's replay of them
      twinproof view run --html scene.html                one file with a timeline; also for evidence --scene
      twinproof view run --vr page --trial 3              a WebXR page; serve it on localhost or over HTTPS

    The viewer listens on 127.0.0.1 only, and shows nothing without its token (docs/view.md).
    """

    folder: Positional[Path]
    """A Twin, Trials or Evidence folder, or the folder of a run."""
    twin: Path | None = None
    """The Twin, where it is not the folder itself nor beside it."""
    posterior: Path | None = None
    """A Posterior folder for the sliders, where it does not lie beside the twin."""
    split: Path | None = None
    """A Split whose calibration and validation episodes are shown, where it does not lie beside the twin."""
    scenes: str | None = None
    """Other scenes for other objects, by label: 'practice/scene_{object}.xml'. Default: what the fit was told."""
    html: Path | None = None
    """Write one self-contained page instead, at most 8 MB."""
    vr: Path | None = None
    """Write a WebXR page into this new folder instead."""
    trial: int = 0
    """Which trial the page plays: its row in trials.parquet, from 0 on."""
    episode: str = ""
    """Play this recorded episode in the page instead: how its id begins."""
    ghost: str = "twin"
    """The domain whose trial goes along as a ghost in a page, or twin or nominal for a replay; "" for none."""
    restart_s: float = 0.5
    """How often a replay in a page starts anew from the readings; 0: never."""
    host: str = "127.0.0.1"
    """Bind to this address of this machine. Others than 127.0.0.1 need --i-know."""
    i_know: bool = False
    """Yes, everyone who can read the traffic to this address can see the scene: it is not encrypted."""
    port: int = 0
    """0: any that is free."""
    browser: bool = True
    """Open the address in a browser."""


@dataclass(frozen=True)
class ScenePage:
    """A folder with the page of one trial, scene.html, for a report; a stage of `twinproof run`."""

    trials: Path
    twin: Path
    posterior: Path
    out: Path
    trial: int = 0
    ghost: str = "twin"


def scene_page(config: ScenePage) -> int:
    """The page of `twinproof view --html`, in a folder of its own."""
    from twinproof.nouns.files import new_folder
    from twinproof.view.opened import open_folder
    from twinproof.view.static import REPORTED_BYTES

    asked = View(config.trials, config.twin, config.posterior, trial=config.trial, ghost=config.ghost)
    opened = open_folder(asked.folder, asked.twin, asked.posterior)
    page = _page(asked, opened, handed_for(opened), REPORTED_BYTES)
    with new_folder(config.out) as folder:
        (folder / "scene.html").write_bytes(page)
    sys.stdout.write(f"{config.out / 'scene.html'}: {len(page) / 1e6:.1f} MB\n")
    return 0


def view(config: View) -> int:
    """`twinproof view`."""
    if config.host != "127.0.0.1" and not config.i_know:
        raise ConfigError(
            f"--host {config.host} shows the scene beyond this machine, unencrypted. Add --i-know if that is meant, or "
            "leave --host out and forward a port with ssh -L."
        )
    if config.html is not None and config.vr is not None:
        raise ConfigError("--html and --vr were both given. Write one page at a time.")
    from twinproof.view.opened import open_folder

    opened = open_folder(config.folder, config.twin, config.posterior, config.split)
    handed = handed_for(opened, config.scenes)
    if config.html is not None:
        return _html(config, opened, handed)
    if config.vr is not None:
        return _vr(config, opened, handed)
    return _live(config, opened, handed)


def handed_for(opened: Opened, scenes: str | None = None) -> Handed:
    """What only the simulator knows about a twin: its look, its kinematics, and what it would have done."""
    from twinproof.evaluate.replay import replayed
    from twinproof.nouns.episode import Episode
    from twinproof.nouns.trace import Trace
    from twinproof.sim.posed import Posed
    from twinproof.sim.scene import Scene, engine
    from twinproof.sim.scenes_by_label import scene_for, scenes_of
    from twinproof.view.playing import Handed

    drive = None if opened.posterior is None else opened.posterior.drive
    scene = Scene.of(opened.twin, drive)
    posed = Posed(scene)
    told = opened.scenes if opened.recorded else None  # without episodes nothing happened in other scenes
    others = scenes_of(scenes or told, [each.episode.labels for each in opened.recorded])

    def place(trace: Trace, time_s: np.ndarray) -> np.ndarray:
        return posed.poses(trace.signals, time_s)

    def simulate(trace: Trace, theta: Theta) -> Trace:
        again = replayed(scene, Episode.of(_from_rest(trace), {}), theta, smooth=False)
        return Trace("sliders", again.signals, (), engine(), theta, again.notes)

    def replay(recorded: Recorded, theta: Theta, restart_s: float) -> Trace:
        there = scene_for(recorded.episode.labels, others, scene).driven(drive)
        again = replayed(there, recorded.episode, theta, restart_s)
        return Trace("twin", again.signals, (), engine(), theta, again.notes)

    return Handed(look_of(opened.twin), place, simulate, replay, lambda recorded: _trace_of(recorded, scene))


def _trace_of(recorded: Recorded, scene: Scene) -> Trace:
    """A recorded episode as a trace. Its events are told by the rules that compare reality and twin, where they can."""
    from twinproof.evaluate.events import EventRules, events_of
    from twinproof.evaluate.motion import motion_of, scale_of
    from twinproof.evaluate.replay import twin_tips, with_ranges
    from twinproof.evaluate.views import view_of
    from twinproof.nouns.errors import TwinproofError
    from twinproof.nouns.trace import Event, Trace

    episode, rules, notes = recorded.episode, EventRules(), recorded.episode.notes
    try:
        rig = with_ranges(recorded.rig, scene)
        scale = scale_of(rig)
        motion = motion_of(episode, rig, scale.joints, "recorded")
        happened = events_of(view_of(episode, motion, rig, scale, twin_tips(rig, scene), rules), rules)
    except TwinproofError as problem:
        happened, notes = (), (*notes, f"its events are not told: {problem}")
    events = tuple(Event(f"{each.of} {each.name}", each.time_s) for each in happened)
    return Trace("real", episode.signals, events, notes=notes)


def _from_rest(trace: Trace) -> dict[str, Signal]:
    """A trace's signals with what its motors got before the first command, which a delay lets through: to hold still.

    A replay of a recording takes the first command to have been there before; a trial begins with none.
    """
    from dataclasses import replace

    found = dict(trace.signals)
    places = [each for each in found.values() if each.kind == "joint_position"]
    start = {column.name: float(each.value[0, k]) for each in places for k, column in enumerate(each.columns)}
    for signal in (each for each in trace.signals.values() if each.kind == "joint_command"):
        held = [start.get(c.name, 0.0) if c.unit in ("rad", "m") else 0.0 for c in signal.columns]
        early = signal.time_s[0] - BEFORE_S
        missing = None if signal.missing is None else np.concatenate([signal.missing[:1] & False, signal.missing])
        value = np.concatenate([np.array([held]), signal.value])
        found[signal.name] = replace(
            signal, time_s=np.r_[early, signal.time_s], value=value, missing=missing, log_time_s=None
        )
    return found


def look_of(twin: Twin) -> Look:
    """Everything that is seen of a twin, in the frames of its links."""
    from twinproof.export.subject import subject_of
    from twinproof.view.look import Look

    subject = subject_of(twin)
    links = subject.anatomy.links
    collision = tuple(piece for link in links for piece in _touching(link))
    gaps, far_m = _gaps(twin, collision)
    return Look(
        _name(twin, subject.scene.xml),
        tuple(link.name for link in links),
        np.stack([link.T_world_link for link in links]),
        tuple(_painted(each) for each in subject.surfaces),
        collision,
        gaps,
        far_m,
        subject.worn(),
        tuple(_eye(name, camera, subject.anatomy) for name, camera in twin.cameras.items()),
        tuple(link.name for link in links if link.name in subject.anatomy.moving),
        tuple(link.name for link in links if any(joint.kind == "free" for joint in link.joints)),
        (*subject.notes, *subject.splat_notes),
    )


def _name(twin: Twin, xml: str) -> str:
    """The twin's name: that of its scene, and of the objects in it; else of its folder."""
    import re
    from html import unescape

    stated = re.search(r"""<mujoco\b[^>]*\bmodel=("[^"]*"|'[^']*')""", xml)
    name = unescape(stated[1][1:-1]).strip() if stated else ""
    objects = [body.name for body in twin.bodies if body.layer == "object" and body.visual]
    return f"{name or twin.root.name}{' with ' if objects else ''}{', '.join(objects)}"


def _painted(surface: Surface) -> Piece:
    """A surface with its colour in its vertices or its texture, as viewers want it."""
    from twinproof.nouns.baked import Baked
    from twinproof.nouns.mesh import Mesh
    from twinproof.nouns.mesh_glb import to_display, to_linear
    from twinproof.view.look import Piece

    tint = to_linear(np.array(surface.rgba[:3]))
    if surface.texture is not None and surface.st is not None:
        picture = np.round(255 * to_display(to_linear(surface.texture / 255.0) * tint)).astype(np.uint8)
        corners = np.stack([surface.st[..., 0], 1 - surface.st[..., 1]], axis=-1)
        return Piece(surface.name, surface.link, Baked(surface.mesh, corners, picture))
    own = np.ones_like(surface.mesh.vertices) if surface.mesh.colours is None else surface.mesh.colours
    mesh = Mesh(surface.mesh.vertices, surface.mesh.faces, to_display(to_linear(own) * tint))
    return Piece(surface.name, surface.link, mesh)


def _touching(link: Link) -> list[Piece]:
    """What touches, of one link. Planes without end are left out: they would hide the rest."""
    from twinproof.nouns.mesh import Mesh
    from twinproof.nouns.mesh_files import welded
    from twinproof.sim.anatomy import SHAPES
    from twinproof.sim.tessellate import solid_triangles
    from twinproof.view.look import Piece

    found = []
    for k, shape in enumerate(link.shapes):
        if shape.touches and shape.kind != "plane":
            mesh = shape.mesh
            if mesh is None:
                corners = solid_triangles(SHAPES.index(shape.kind), shape.size_m, float(shape.size_m.max())).reshape(
                    -1, 3
                )
                mesh = welded(Mesh(corners, np.arange(len(corners)).reshape(-1, 3)))
            found.append(Piece(shape.name or f"{link.name}_{k}", link.name, mesh.moved(shape.T_link_shape)))
    return found


def _gaps(twin: Twin, collision: tuple[Piece, ...]) -> tuple[tuple[Piece, ...], float]:
    """Visual meshes coloured by their distance to the collision parts, for bodies whose gap was audited."""
    from twinproof.nouns.mesh import Mesh
    from twinproof.nouns.mesh_files import read_mesh
    from twinproof.sim.nearest import Tree
    from twinproof.view.look import Piece, heat

    audited = twin.audits.get("visual_against_collision", {})
    far_m = max((float(audit["p95_m"]) for audit in audited.values()), default=0.0)
    found = []
    for body in twin.bodies:
        parts = [piece.mesh for piece in collision if piece.link == body.name]
        if body.name in audited and body.visual and parts and far_m > 0:
            mesh = read_mesh(twin.path(body.visual))
            counts = np.cumsum([0, *(len(part.vertices) for part in parts)])
            faces = np.concatenate([part.faces + n for part, n in zip(parts, counts[:-1], strict=True)])
            tree = Tree.of(Mesh(np.concatenate([part.vertices for part in parts]), faces))
            shades = heat(tree.nearest(mesh.vertices)[0], far_m)
            found.append(Piece(f"{body.name} gap", body.name, Mesh(mesh.vertices, mesh.faces, shades)))
    return tuple(found), far_m


def _eye(name: str, camera: TwinCamera, whole: Anatomy) -> Eye:
    from twinproof.view.look import Eye

    rides = camera.mount.parent in whole.named
    link = camera.mount.parent if rides else whole.links[0].name
    height_rad = 2 * float(np.arctan(camera.height / 2 / camera.intrinsics.fy))
    aspect = camera.width / camera.height * camera.intrinsics.fy / camera.intrinsics.fx
    return Eye(name, link, camera.mount.T_parent_camera, height_rad, aspect)


def _played(config: View, opened: Opened, handed: Handed) -> tuple[Motion | None, Motion | None, Apart | None]:
    """The motion of what was asked for, its ghost's, and how far they are apart."""
    from twinproof.view.motion import apart
    from twinproof.view.opened import Recorded
    from twinproof.view.playing import partner, played, replay_theta, replays, simulated

    row = _row(config, opened)
    if row is None:
        return None, None, None
    shown = played(row, opened, handed)
    ghost = partner(row, config.ghost, opened, handed)
    if isinstance(row, Recorded) and config.ghost in replays(opened):
        theta, anew_s = replay_theta(opened, config.ghost), config.restart_s or math.inf
        ghost = simulated(row, shown, config.ghost, theta, handed, anew_s)
    if ghost is None:
        return shown.motion, None, None
    error = apart((shown.trace, shown.motion), (ghost.trace, ghost.motion), handed.look)
    return shown.motion, ghost.motion, error


def _row(config: View, opened: Opened) -> Row | None:
    """The recorded episode or the trial that a page is to play; else the first that there is."""
    if config.episode:
        return opened.episode(config.episode)
    if not opened.trials:
        return opened.recorded[0] if opened.recorded else None
    if not 0 <= config.trial < len(opened.trials):
        raise ConfigError(f"--trial {config.trial} is none of the {len(opened.trials)} trials; count from 0.")
    return opened.trials[config.trial]


def _page(config: View, opened: Opened, handed: Handed, most: int | None = None) -> bytes:
    from twinproof.view.static import MOST_BYTES, scene_html

    return scene_html(handed.look, *_played(config, opened, handed), MOST_BYTES if most is None else most).encode()


def _html(config: View, opened: Opened, handed: Handed) -> int:
    from twinproof.nouns.files import write_whole

    assert config.html is not None
    page = _page(config, opened, handed)
    write_whole(config.html, page)
    sys.stdout.write(f"{config.html}: {len(page) / 1e6:.1f} MB. Open it in a browser.\n")
    return 0


def _vr(config: View, opened: Opened, handed: Handed) -> int:
    from twinproof.view.vr import write_page

    assert config.vr is not None
    motion, ghost, error = _played(config, opened, handed)
    size = write_page(handed.look, motion, ghost, config.vr, error)
    sys.stdout.write(
        f"{config.vr}/index.html: {size / 1e6:.1f} MB with its data. Open it in a browser; for a headset serve the "
        "folder on localhost or over HTTPS (docs/view.md).\n"
    )
    return 0


def _live(config: View, opened: Opened, handed: Handed) -> int:
    import threading
    import webbrowser

    from twinproof.view.gate import gate_of, guarded, listen, stop
    from twinproof.view.live import Live

    bound = listen(config.host, config.port)
    gate = gate_of(bound, config.host)
    server = guarded(gate, bound, handed.look.title)
    live = Live(server, opened, handed)
    name = f"[{config.host}]" if ":" in config.host else config.host
    address = f"http://{name}:{bound.getsockname()[1]}/{gate.token}/"
    try:  # before anybody knows the address, and could already want to end it
        sys.stdout.write(f"{address}\nCtrl-C ends the viewer.\n")
        sys.stdout.flush()
        if config.browser:
            webbrowser.open(address)
        ended = threading.Event()
        while not ended.wait(1.0):  # a signal that another thread took is heard a second later
            pass
    except KeyboardInterrupt:
        sys.stdout.write("the viewer is closed\n")
    finally:
        live.close()
        stop(server)
    return 0
