"""Structure from motion: plain pictures become a COLMAP model, through pycolmap in processes of its own.

OUT/images/         the pictures (hard links where the file system allows)
OUT/sparse/0/       cameras, images and points3D of the model
OUT/sfm.json        how many pictures were registered, points, reprojection error, which mapper

The model's scale, place and axes are arbitrary. SIFT features only: other kinds need weights, and ALIKED ends the
process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

from twinproof.nouns.errors import MissingExtra, SplatError
from twinproof.nouns.files import link_or_copy, new_folder, remove_tree, write_json
from twinproof.nouns.hashing import Json
from twinproof.nouns.pictures import picture_head
from twinproof.nouns.progress import Progress, quiet

FORMAT = "twinproof/sfm/1"
PICTURES = (".jpg", ".jpeg", ".png")
FEWEST = 3
EXHAUSTIVE = 80  # pictures up to which every pair is matched; beyond, neighbours in the order of their names
GOOD_SHARE = 0.9  # of the pictures; below, the global mapper has a try
TAKE_BETTER = (
    "Take sharp pictures of things with texture that overlap by two thirds, from different places and not only turning "
    "on the spot; name them in the order they were taken."
)
Tell = Callable[[int, str], None]


def structure_from_motion(pictures: Path, out: Path, progress: Progress = quiet, threads: int = -1) -> Path:
    """The folder `out`, with the pictures and a COLMAP model of those that could be registered.

    Incremental mapping first; where it registers less than 90 % of the pictures, global mapping too, and the one with
    more pictures stays. Written whole or not at all.
    """
    files = _pictures(pictures)
    if find_spec("pycolmap") is None:
        raise MissingExtra(
            "structure from motion needs pycolmap, which is not installed. Install it with "
            "`pip install twinproof[sfm]`, or give a folder with poses: a COLMAP model or a transforms.json."
        )
    with new_folder(out) as scratch:
        for file in files:
            link_or_copy(file.resolve(), scratch / "images" / file.name)
        report = _reconstruct(scratch, files, progress, threads)
        write_json(scratch / "sfm.json", report)
    progress(len(files), f"{report['registered']} of {len(files)} registered", len(files))
    return out


def _pictures(folder: Path) -> list[Path]:
    root = folder / "images" if (folder / "images").is_dir() else folder
    files = sorted(path for path in root.iterdir() if path.suffix.lower() in PICTURES) if root.is_dir() else []
    if len(files) < FEWEST:
        raise SplatError(
            f"{root} holds {len(files)} pictures (JPEG or PNG); structure from motion needs {FEWEST} at least, and 20 "
            f"or more to be sure. {TAKE_BETTER}"
        )
    return files


def _reconstruct(scratch: Path, files: Sequence[Path], progress: Progress, threads: int) -> dict[str, Json]:
    heads = [picture_head(file.read_bytes(), str(file)) for file in files]
    work = scratch / "work"
    work.mkdir()
    job: dict[str, Json] = {
        "images": str(scratch / "images"),
        "database": str(work / "database.db"),
        "threads": threads,
        "one_camera": len({(head.width, head.height) for head in heads}) == 1,
        "sequential": len(files) > EXHAUSTIVE,
    }

    def child(steps: list[str]) -> dict[str, Json]:
        path = work / f"{steps[-1]}.json"
        write_json(path, {**job, "steps": steps, "model": str(work / steps[-1])})
        command = [sys.executable, "-m", "twinproof.reconstruct.sfm_worker", str(path)]
        return run_child(command, lambda done, doing: progress(done, doing, len(files)))

    tried = {"incremental": child(["extract", "match", "incremental"])}
    notes: list[Json] = []
    if tried["incremental"]["registered"] < GOOD_SHARE * len(files):
        try:
            tried["global"] = child(["global"])
        except SplatError as problem:  # the incremental model is there, whatever happened here
            notes.append(f"global mapping failed: {problem}")
    mapper = max(tried, key=lambda name: (tried[name]["registered"], tried[name]["points"]))
    found = tried[mapper]
    if found["registered"] < FEWEST:
        raise SplatError(
            f"{found['registered']} of {len(files)} pictures could be registered; {FEWEST} at least are needed. "
            f"{TAKE_BETTER}"
        )
    if found["registered"] < GOOD_SHARE * len(files):
        lost = len(files) - int(found["registered"])
        notes.append(f"{lost} of {len(files)} pictures could not be registered and are left out. {TAKE_BETTER}")
    (scratch / "sparse").mkdir()
    (work / mapper).rename(scratch / "sparse" / "0")
    remove_tree(work)
    others: dict[str, Json] = {name: dict(result) for name, result in tried.items()}
    return {"format": FORMAT, "pictures": len(files), "mapper": mapper, **found, "tried": others, "notes": notes}


def run_child(command: Sequence[str], tell: Tell) -> dict[str, Json]:
    """Runs a process that writes JSON lines, passes on what it is `doing` and has `done`, gives back its last line.

    Whatever ends the process, an abort in C++ included, is an error of ours and not our end.
    """
    environment = {**os.environ, "GLOG_minloglevel": "2", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=environment
    ) as child:
        try:
            words, doing, last = _listen(child, tell)
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        why = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit code {child.returncode}"
        raise SplatError(
            f"{doing}: COLMAP's process ended with {why}. Its last words: {words[-400:] or 'none'}. Remove broken or "
            "very large pictures and try again; if it stays so, run COLMAP yourself and give the folder of its model."
        )
    return last


def _listen(child: subprocess.Popen[str], tell: Tell) -> tuple[str, str, dict[str, Json]]:
    """What the child said on stderr, what it did last, and the last object on its stdout, until it closes both."""
    assert child.stdout is not None, "it was asked for"
    assert child.stderr is not None, "it was asked for"
    words, stream = list[str](), child.stderr
    listener = Thread(target=lambda: words.extend(stream))
    listener.start()
    doing, last = "structure from motion", dict[str, Json]()
    for line in child.stdout:
        last = json.loads(line)
        if "doing" in last:
            doing = str(last["doing"])
            tell(int(last["done"]), doing)
    listener.join()
    return " ".join("".join(words).split()), doing, last
