"""Twins from parts of twins: objects and backgrounds are layers that are removed, moved, replaced and added.

twin = compose(base, [Remove("cube"), Add(other, "cup", "cup_2", (0.4, 0.1, 0.0)), Move("bowl", (0.3, 0, 0))], folder)

Every part keeps its source; the notes say what was done by hand. What interpenetrates is refused. Where a thing is
taken away and the background has a hole, the table is continued from around it, as a layer that is declared.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import TwinError
from twinproof.nouns.hashing import Json
from twinproof.nouns.rig import Mount, Quaternion, Vector3
from twinproof.nouns.source import Declared
from twinproof.nouns.splat_files import read_ply, write_ply
from twinproof.nouns.splats import Splats, joined
from twinproof.nouns.theta import Theta
from twinproof.nouns.twin import Body, CollisionPart, Twin
from twinproof.reconstruct.background_fill import MADE_UP, WHY, filled_below
from twinproof.reconstruct.compose_scene import EditedScene
from twinproof.reconstruct.poses import quat_of
from twinproof.sim.grid import Plane
from twinproof.sim.scene import Scene
from twinproof.sim.splat.placed import as_volumes, placed

if TYPE_CHECKING:
    from jaxtyping import Float

UPRIGHT: Quaternion = (1.0, 0.0, 0.0, 0.0)
PLANE = 0  # MuJoCo's number of a geom that is one


@dataclass(frozen=True)
class Remove:
    """Takes a body and its looks out."""

    body: str


@dataclass(frozen=True)
class Move:
    """Puts a body elsewhere: T_world_body."""

    body: str
    position_m: Vector3
    quat_wxyz: Quaternion = UPRIGHT


@dataclass(frozen=True, eq=False)
class Add:
    """Brings a body of a twin under a name of its own."""

    twin: Twin
    body: str
    name: str
    position_m: Vector3 = (0.0, 0.0, 0.0)
    quat_wxyz: Quaternion = UPRIGHT


@dataclass(frozen=True, eq=False)
class Replace:
    """Puts a body of another twin where one is."""

    body: str
    twin: Twin
    other: str


Edit = Remove | Move | Add | Replace


@dataclass
class _Draft:
    """A twin while it is composed. Looks are kept apart, body by body, in the scene's frame."""

    folder: Path
    base: Twin
    scene: EditedScene
    bodies: dict[str, Body]
    looks: dict[str, Splats]
    start: dict[str, float]
    parents: dict[str, str] = field(default_factory=dict)
    log: list[Json] = field(default_factory=list)
    poses: dict[str, np.ndarray] = field(default_factory=dict)  # T_world_body of what was touched
    left: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # where the looks of objects were that are gone from there

    def standing(self, name: str) -> Float[np.ndarray, "4 4"]:
        """Where a body is by now."""
        return self.poses[name] if name in self.poses else _standing(self.base, name)


def compose(base: Twin, edits: Sequence[Edit], folder: Path, *, tolerance_m: float = 0.001) -> Twin:
    """A new twin in an empty working folder; save it elsewhere. The base stays as it is.

    Bodies that were touched and are inside another by more than the tolerance, as the scene starts, are an error.
    """
    if not edits:
        raise TwinError("compose: nothing is to be changed. Name something to remove, move, add or replace.")
    draft = _drafted(base, folder)
    for edit in edits:
        match edit:
            case Remove(body):
                _remove(draft, body)
            case Move(body, position_m, quat_wxyz):
                _move(draft, body, position_m, quat_wxyz)
            case Add(twin, body, name, position_m, quat_wxyz):
                _add(draft, twin, body, name, _pose(position_m, quat_wxyz))
            case Replace(body, twin, other):
                _known(draft, body)
                T = draft.standing(body)
                _remove(draft, body)
                _add(draft, twin, other, body, T)
    return _finished(draft, tolerance_m)


def _drafted(base: Twin, folder: Path) -> _Draft:
    for name in base.files:
        if name not in ("scene.xml", "splats.ply"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(base.root / name, folder / name)
    parents = {**base.parents, "twin": base.hash}
    bodies = {body.name: body for body in base.bodies}
    return _Draft(folder, base, EditedScene(base.root), bodies, _looks(base), dict(base.start), parents)


def _looks(twin: Twin) -> dict[str, Splats]:
    """Each body's splats as a group of its name; those that nobody owns under an empty name."""
    if "splats.ply" not in twin.files:
        return {}
    whole = read_ply(twin.path("splats.ply"))
    owned, looks = np.zeros(len(whole), bool), dict[str, Splats]()
    for body in twin.bodies:
        if body.splats:
            first, count = body.splats
            run = np.arange(first, first + count)
            owned[run] = True
            looks[body.name] = _grouped(whole.take(run), body.name)
    if not owned.all():
        looks[""] = whole.take(np.flatnonzero(~owned))
    return looks


def _grouped(splats: Splats, name: str) -> Splats:
    return replace(splats, group=np.zeros(len(splats), np.int32), groups=(name,))


def _remove(draft: _Draft, name: str) -> None:
    _known(draft, name)
    gone = draft.scene.inner(name) if draft.scene.has(name) else {name}
    if draft.scene.has(name):
        draft.scene.remove(name)
    for each in gone:
        _leaves(draft, each)
        draft.poses.pop(each, None)
        draft.bodies.pop(each, None)
        draft.looks.pop(each, None)
        draft.start = {id: value for id, value in draft.start.items() if each not in id.split(".")}
    draft.log.append({"removed": name})


def _leaves(draft: _Draft, name: str) -> None:
    """Remembers where an object first stood: behind it the background may have a hole."""
    if name in draft.looks and draft.bodies[name].layer == "object":
        draft.left.setdefault(name, draft.looks[name].means.astype(float))


def _move(draft: _Draft, name: str, position_m: Vector3, quat_wxyz: Quaternion) -> None:
    _known(draft, name)
    T_old, T_new = draft.standing(name), _pose(position_m, quat_wxyz)
    if draft.scene.has(name):
        draft.scene.move(name, np.array(position_m), _unit(quat_wxyz))
    for each in draft.scene.inner(name) if draft.scene.has(name) else {name}:
        if each in draft.looks:
            _leaves(draft, each)
            draft.looks[each] = placed(draft.looks[each], T_new @ np.linalg.inv(T_old))
    draft.poses[name] = T_new
    draft.log.append(
        {"moved": name, "position_m": list(position_m), "quat_wxyz": list(quat_wxyz), "source": "declared"}
    )


def _add(draft: _Draft, twin: Twin, name: str, new_name: str, T_world_body: Float[np.ndarray, "4 4"]) -> None:
    body = twin.body(name)
    if new_name in draft.bodies:
        raise TwinError(f"compose: the twin has a body {new_name!r} already. Give the new one another name.")
    theirs, files = EditedScene(twin.root), dict[str, str]()
    if theirs.has(name):
        if len(theirs.inner(name)) > 1:
            raise TwinError(f"compose: body {name!r} has bodies inside it. Bring bodies that stand alone.")
        place, quat = T_world_body[:3, 3], np.array(quat_of(T_world_body))
        files = draft.scene.add(twin.root, name, new_name, place, quat)
    for path in [part.path for part in body.collision] + ([body.visual] if body.visual else []):
        files.setdefault(path, f"meshes/{new_name}_{PurePosixPath(path).name}")
    for source, target in files.items():
        (draft.folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(twin.root / source, draft.folder / target)
    parts = tuple(CollisionPart(files[part.path], part.volume_m3) for part in body.collision)
    visual = files[body.visual] if body.visual else None
    draft.bodies[new_name] = replace(body, name=new_name, collision=parts, visual=visual)
    looks = _looks(twin).get(name)
    if looks is not None:
        moved = placed(looks, T_world_body @ np.linalg.inv(_standing(twin, name)))
        draft.looks[new_name] = _grouped(moved, new_name)
    renamed = {
        ".".join(new_name if word == name else word for word in id.split(".")): x for id, x in twin.start.items()
    }
    draft.start |= {id: value for id, value in renamed.items() if new_name in id.split(".")}
    draft.parents[f"twin.{new_name}"] = twin.hash
    draft.poses[new_name] = T_world_body
    draft.log.append(
        {
            "added": new_name,
            "body": name,
            "twin": twin.hash,
            "T_world_body": T_world_body.tolist(),
            "source": "declared",
        }
    )


def _known(draft: _Draft, name: str) -> None:
    if name not in draft.bodies:
        raise TwinError(f"compose: the twin has no body {name!r}; it has {', '.join(draft.bodies)}.")


def _pose(position_m: Vector3, quat_wxyz: Quaternion) -> Float[np.ndarray, "4 4"]:
    _unit(quat_wxyz)
    return Mount(position_m=position_m, quat_wxyz=quat_wxyz).T_parent_camera


def _unit(quat_wxyz: Quaternion) -> Float[np.ndarray, "4"]:
    quat = np.array(quat_wxyz, float)
    if not np.isfinite(quat).all() or not np.linalg.norm(quat) > 1e-6:
        raise TwinError(f"compose: the quaternion {quat_wxyz} turns nothing. Write 1 0 0 0 for upright.")
    return np.asarray(quat / np.linalg.norm(quat))


def _standing(twin: Twin, name: str) -> Float[np.ndarray, "4 4"]:
    """T_world_body as the twin's scene starts; the identity for what has no body in the scene."""
    if not EditedScene(twin.root).has(name):
        return np.eye(4)
    model: Any = Scene.of(twin).nominal()
    T, body = np.eye(4), model.body(name)
    while int(body.id):
        local = Mount(
            position_m=(float(body.pos[0]), float(body.pos[1]), float(body.pos[2])),
            quat_wxyz=(float(body.quat[0]), float(body.quat[1]), float(body.quat[2]), float(body.quat[3])),
        ).T_parent_camera
        T, body = local @ T, model.body(int(body.parentid[0]))
    return T


def _finished(draft: _Draft, tolerance_m: float) -> Twin:
    (draft.folder / "scene.xml").write_text(draft.scene.text(), encoding="utf-8")
    filled = _fill(draft)
    bodies, notes = _write_looks(draft)
    _check_overlaps(draft, tolerance_m)
    notes = (
        *draft.base.notes,
        *draft.scene.notes,
        *filled,
        *notes,
        f"composed by hand: {len(draft.log)} changes, see audits",
    )
    audits: dict[str, Json] = {"composed": list(draft.log)}
    if draft.base.audits:
        audits["base"] = dict(draft.base.audits)
    return Twin(
        root=draft.folder,
        bodies=bodies,
        alignment=draft.base.alignment,
        engine=draft.base.engine,
        episodes=draft.base.episodes,
        parents=draft.parents,
        cameras=draft.base.cameras,
        start=Theta(draft.start),
        audits=audits,
        notes=notes,
        ledger=draft.base.ledger,
    )


def _fill(draft: _Draft) -> tuple[str, ...]:
    """Makes up the table where an object stood and the background is open; says what was made up, and where not."""
    behind = [
        as_volumes(draft.looks[name])
        for name, body in draft.bodies.items()
        if body.layer == "background" and name in draft.looks
    ]
    if not behind:
        return ()
    table, said = _table(draft.base), list[str]()
    for name, places in draft.left.items():
        found = filled_below(joined(behind), table if table is not None else Plane(offset_m=places[:, 2].min()), places)
        if isinstance(found, str):
            said.append(f"behind {name}: {found}")
        elif found is not None:
            behind.append(as_volumes(found))
            flat = all(draft.looks[each].flat for each in draft.looks)
            more = [draft.looks[MADE_UP]] if MADE_UP in draft.looks else []
            draft.looks[MADE_UP] = joined([*more, found if flat else as_volumes(found)])
            said.append(f"behind {name}: {WHY}: declared")
    if MADE_UP in draft.looks:
        bare = {"mesh": "free surfels; the table is a plane"}
        draft.bodies[MADE_UP] = Body(MADE_UP, Declared(WHY), "background", splats=(0, 1), lacks=bare)
    return tuple(said)


def _table(twin: Twin) -> Plane | None:
    """The plane that stands in the world, if the scene has one."""
    model: Any = Scene.of(twin).nominal()
    for k in range(model.ngeom):
        geom = model.geom(k)
        if int(geom.type[0]) == PLANE and int(geom.bodyid[0]) == 0:
            normal = Mount(quat_wxyz=tuple(geom.quat.tolist())).T_parent_camera[:3, 2]
            x, y, z = (float(v) for v in normal / np.linalg.norm(normal))
            return Plane((x, y, z), float(normal @ geom.pos))
    return None


def _write_looks(draft: _Draft) -> tuple[tuple[Body, ...], tuple[str, ...]]:
    """Writes splats.ply with one run for each body, in their order; surfels become flat volumes beside volumes."""
    notes: tuple[str, ...] = ()
    looks = {name: draft.looks[name] for name in [*draft.bodies, ""] if name in draft.looks}
    if len({each.flat for each in looks.values()}) > 1:
        looks = {name: as_volumes(each) for name, each in looks.items()}
        notes = ("surfels and volumes stand side by side: surfels were written as flat volumes",)
    if looks:
        write_ply(draft.folder / "splats.ply", joined(list(looks.values())))
    first, runs = 0, dict[str, tuple[int, int]]()
    for name, each in looks.items():
        runs[name] = (first, len(each))
        first += len(each)
    return tuple(replace(body, splats=runs.get(name)) for name, body in draft.bodies.items()), notes


def _check_overlaps(draft: _Draft, tolerance_m: float) -> None:
    from twinproof.sim.references import expand
    from twinproof.sim.separation import overlaps

    scene = Scene(expand(draft.folder / "scene.xml", draft.folder), draft.folder)
    for found in overlaps(scene, tolerance_m):
        if {found.first, found.second} & set(draft.poses):
            raise TwinError(
                f"compose: {found.first!r} and {found.second!r} are {1000 * found.depth_m:.1f} mm inside each other; "
                f"{1000 * tolerance_m:.1f} mm are allowed. Put one of them elsewhere."
            )
