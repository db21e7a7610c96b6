"""Pictures in ROS 2 bags: every encoding, byte for byte where they are files, with the calibration beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ingest import bag_files as bags
from tests.ingest.bag_files import T, many, read
from tests.ingest.pictures import jpeg, png
from twinproof.ingest.bag_read import BagReader
from twinproof.ingest.read import ingest
from twinproof.ingest.suggest import suggest_rig
from twinproof.nouns.errors import RecordingError
from twinproof.nouns.rig import Intrinsics, read_rig

STORAGES = ("mcap", "sqlite3")


def pictures_bag(folder: Path, storage: str = "mcap") -> Path:
    """Every encoding, with padding in the rows, and a calibration for one camera."""
    rng = np.random.default_rng(1)
    colour = rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)
    alpha = np.concatenate([colour, np.full((6, 8, 1), 9, np.uint8)], axis=-1)
    depth = rng.integers(0, 60000, (6, 8), dtype=np.uint16)
    metres = rng.random((6, 8)).astype(np.float32)
    raw = [("rgb8", colour), ("bgr8", colour), ("rgba8", alpha), ("bgra8", alpha), ("mono8", colour[..., 0]),
           ("mono16", depth), ("16UC1", depth), ("32FC1", metres)]  # fmt: skip
    entries = []
    for encoding, picture in raw:
        entries += many(
            f"/{encoding}/image_raw", "sensor_msgs/msg/Image",
            lambda ns, k, p=picture, e=encoding: bags.image(ns, p, e, pad=4, big=e == "mono16"),
        )  # fmt: skip
    for name, make in (("jpeg", jpeg), ("png", png)):
        entries += many(
            f"/{name}/image_raw/compressed", "sensor_msgs/msg/CompressedImage",
            lambda ns, k, make=make, name=name: bags.compressed(ns, make(k), name),
        )  # fmt: skip
    entries += many("/jpeg/camera_info", "sensor_msgs/msg/CameraInfo", lambda ns, k: bags.camera_info(ns))
    entries.sort(key=lambda entry: entry[2])
    return bags.write_bag(folder, entries, storage, chunk=5 if storage == "mcap" else None)


@pytest.mark.parametrize("storage", STORAGES)
def test_pictures_of_every_encoding_come_back_as_they_were(tmp_path, storage):
    episode = read(pictures_bag(tmp_path / "take", storage))
    feeds = {feed.source: feed for feed in episode.feeds}
    rng = np.random.default_rng(1)
    colour = rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)
    depth = rng.integers(0, 60000, (6, 8), dtype=np.uint16)
    metres = rng.random((6, 8)).astype(np.float32)
    expected = {"rgb8": colour, "bgr8": colour[..., ::-1], "rgba8": colour, "bgra8": colour[..., ::-1],
                "mono8": colour[..., 0], "mono16": depth, "16UC1": depth, "32FC1": metres}  # fmt: skip
    for encoding, picture in expected.items():
        video = feeds[f"/{encoding}/image_raw"].write(encoding, tmp_path / "out" / f"{encoding}.mp4")
        assert len(video) == 3
        np.testing.assert_array_equal(video.at(0.02)[1], picture, err_msg=encoding)
        assert [round(t * 1e9) for t in video.log_time_s.tolist()] == [1_000_000, 21_000_000, 41_000_000]


def test_compressed_pictures_are_packed_byte_for_byte(tmp_path):
    from twinproof.ingest.bag_write import packets

    episode = read(pictures_bag(tmp_path / "take"))
    feeds = {feed.source: feed for feed in episode.feeds}
    for name, make, codec in (("jpeg", jpeg, "mjpeg"), ("png", png, "png")):
        video = feeds[f"/{name}/image_raw/compressed"].write(name, tmp_path / f"{name}.mp4")
        assert (video.codec, video.width, video.height) == (codec, 64, 48)
        assert list(packets(video)) == [make(k) for k in range(3)]


def test_the_calibration_beside_a_camera_is_its_own(tmp_path):
    episode = read(pictures_bag(tmp_path / "take"))
    lenses = {feed.source: feed.intrinsics for feed in episode.feeds}
    assert lenses["/jpeg/image_raw/compressed"] == Intrinsics(50, 50, 32, 24, (0.1, -0.2, 0, 0, 0))
    assert lenses["/rgb8/image_raw"] is None
    fisheye = many(
        "/c/camera_info", "sensor_msgs/msg/CameraInfo", lambda ns, k: bags.camera_info(ns, 50, "equidistant")
    )
    zoom = many("/z/camera_info", "sensor_msgs/msg/CameraInfo", lambda ns, k: bags.camera_info(ns, 50 + k))
    entries = []
    for topic in ("/c", "/z"):
        entries += many(
            f"{topic}/image_raw",
            "sensor_msgs/msg/Image",
            lambda ns, k: bags.image(ns, np.zeros((4, 4), np.uint8), "mono8"),
        )
    episode = read(bags.write_bag(tmp_path / "other", entries + fisheye + zoom))
    assert [feed.intrinsics and feed.intrinsics.fx for feed in episode.feeds] == [None, 50]
    assert any("'equidistant' is not a pinhole's" in note for note in episode.notes)
    assert any("/z/camera_info: the calibration changes" in note for note in episode.notes)


@pytest.mark.parametrize(
    ("msgtype", "message", "match"),
    [
        ("CompressedImage", lambda ns, k: bags.compressed(ns, b"RIFFxxxx"), "picture 0: neither a JPEG nor a PNG"),
        ("CompressedImage", lambda ns, k: bags.compressed(ns, jpeg(0)[:9]), "picture 0: the picture's head is cut off"),
        ("CompressedImage", lambda ns, k: bags.compressed(ns, png(0), "32FC1; compressedDepth png"), "quantised steps"),
        (
            "CompressedImage",
            lambda ns, k: bags.compressed(ns, (png if k else jpeg)(0)),
            "picture 1: png 64×48 rgb, the",
        ),
        ("Image", lambda ns, k: bags.image(ns, np.zeros((4, 4), np.uint8), "bayer_rggb8"), "'bayer_rggb8' is not read"),
        ("Image", lambda ns, k: bags.image(ns, np.zeros((4, 4), np.uint8), "rgb8"), "16 bytes for 4×4 rgb8"),
        (
            "Image",
            lambda ns, k: bags.image(ns, np.zeros((4, 4), np.uint16), "16UC1" if k else "mono8"),
            "encoding changes to '16UC1'",
        ),
    ],
)
def test_pictures_that_cannot_be_read_are_named(tmp_path, msgtype, message, match):
    folder = bags.write_bag(tmp_path / "take", many("/cam/image", f"sensor_msgs/msg/{msgtype}", message))
    (feed,) = read(folder).feeds
    with pytest.raises(RecordingError, match=match):
        feed.write("cam", tmp_path / "cam.mp4")


def test_depth_in_png_behind_a_transport_header_is_unwrapped(tmp_path):
    from tests.ingest.pictures import encoded

    depth = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64)
    data = b"\x00" * 12 + encoded("png", "gray16be", depth, "gray16le")
    entries = many(
        "/cam/image/compressedDepth", "sensor_msgs/msg/CompressedImage",
        lambda ns, k: bags.compressed(ns, data, "16UC1; compressedDepth png"),
    )  # fmt: skip
    (feed,) = read(bags.write_bag(tmp_path / "take", entries)).feeds
    video = feed.write("cam", tmp_path / "cam.mp4")
    assert video.pixels == "depth_mm"
    np.testing.assert_array_equal(video.at(0)[1], depth)


def test_probe_shows_sizes_and_calibrations(tmp_path):
    cameras = {camera.source: camera for camera in BagReader(pictures_bag(tmp_path / "take")).probe().cameras}
    jpegs = cameras["/jpeg/image_raw/compressed"]
    assert (jpegs.width, jpegs.height, jpegs.intrinsics.fx) == (64, 48, 50)
    depth = cameras["/32FC1/image_raw"]
    assert (depth.width, depth.height, depth.intrinsics) == (8, 6, None)


def test_the_rig_that_is_suggested_reads_its_bag(tmp_path):
    body = T["geometry_msgs/msg/Wrench"](bags.vector(1, 2, 3), bags.vector(4, 5, 6))
    entries = bags.joints(3) + many(
        "/wrench", "geometry_msgs/msg/WrenchStamped",
        lambda ns, k: T["geometry_msgs/msg/WrenchStamped"](bags.header(ns, "tool"), body),
    )  # fmt: skip
    entries += many("/cam/image", "sensor_msgs/msg/CompressedImage", lambda ns, k: bags.compressed(ns, jpeg(k)))
    folder = bags.write_bag(tmp_path / "take", entries)
    (tmp_path / "rig.toml").write_text(suggest_rig(BagReader(folder).probe()), encoding="utf-8")
    (episode,) = ingest(folder, read_rig(tmp_path / "rig.toml"), tmp_path / "out").episodes
    wrench = next(signal for signal in episode.signals.values() if signal.kind == "wrench")
    assert [(column.unit, column.frame) for column in wrench.columns[2:4]] == [("N", "tool"), ("N m", "tool")]
