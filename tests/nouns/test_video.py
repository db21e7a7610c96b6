"""Videos: lazy decoding, cuts that carry no neighbour's picture, pictures stored without loss."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from twinproof.nouns.errors import RecordingError
from twinproof.nouns.video import Video
from twinproof.nouns.video_write import Encoding, cut_video, encode, index_packets, write_pictures

ENCODINGS = {
    "av1": Encoding("libsvtav1", "yuv420p", "rgb24", {"crf": "30", "g": "2", "preset": "12", "svtav1-params": "lp=1"}),
    "h264 with B-frames": Encoding("libx264", "yuv420p", "rgb24", {"crf": "18", "g": "12", "bf": "3"}),
    "hevc with 10 bits": Encoding(
        "libx265", "yuv420p10le", "rgb24", {"crf": "18", "x265-params": "log-level=none:keyint=8"}
    ),
    "hevc": Encoding("libx265", "yuv420p", "rgb24", {"crf": "18", "x265-params": "log-level=none:keyint=8"}),
}


def picture(k: int) -> np.ndarray:
    """Frame k says its number in its brightness."""
    image = np.full((48, 64, 3), 8 * k + 4, dtype=np.uint8)
    image[:8, :8] = 255 - image[:8, :8]
    return image


def film(path: Path, how: Encoding, count: int = 24) -> Video:
    return encode(((k / 10, picture(k)) for k in range(count)), "front", path, "rgb", how)


def numbers(video: Video) -> list[int]:
    return [round((float(image[20:, 20:].mean()) - 4) / 8) for _, image in video.frames()]


@pytest.mark.parametrize("name", ENCODINGS)
def test_frames_come_in_order_and_each_is_decoded_once(tmp_path, name):
    video = film(tmp_path / "v.mp4", ENCODINGS[name])
    assert numbers(video) == list(range(24))
    with video.reader() as reader:
        for k in range(24):
            reader.frame(k)
        assert reader.decoded == 24


@pytest.mark.parametrize("name", ENCODINGS)
def test_any_order_of_access_gives_the_right_frame(tmp_path, name):
    video = film(tmp_path / "v.mp4", ENCODINGS[name])
    with video.reader() as reader:
        for k in (5, 4, 20, 0, 23, 23, 7, 8, 1):
            assert round((float(reader.frame(k)[20:, 20:].mean()) - 4) / 8) == k


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(("first", "count"), [(0, 8), (8, 8), (7, 5), (16, 8), (3, 1), (23, 1)])
def test_a_cut_holds_its_own_frames_and_no_others(tmp_path, name, first, count):
    video = film(tmp_path / "v.mp4", ENCODINGS[name])
    packets = index_packets(video.path, "front")
    cut = cut_video(packets, first, count, "front", np.arange(count) / 10, tmp_path / "cut.mp4")
    assert numbers(cut) == list(range(first, first + count))
    assert len(index_packets(cut.path, "front").pts) == count  # not one packet more than its own


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoder_makes_no_thread_real_time(tmp_path, name):
    """SVT-AV1 does, when root opens it; a process that is started from such a thread starves all others."""
    before = os.sched_getscheduler(0)
    seen = []

    def watched():
        for k in range(6):
            yield k / 10, picture(k)
            seen.extend(os.sched_getscheduler(int(each.name)) for each in Path("/proc/self/task").iterdir())

    encode(watched(), "front", tmp_path / "v.mp4", "rgb", ENCODINGS[name])
    assert {*seen, os.sched_getscheduler(0)} == {before}


def test_a_cut_on_key_frames_copies_packets_and_one_between_them_is_stored_losslessly(tmp_path):
    video = film(tmp_path / "v.mp4", ENCODINGS["av1"])
    packets = index_packets(video.path, "front")
    whole = dict(video.frames())
    clean = cut_video(packets, 8, 6, "front", np.arange(6) / 10, tmp_path / "clean.mp4")
    dirty = cut_video(packets, 7, 6, "front", np.arange(6) / 10, tmp_path / "dirty.mp4")
    assert clean.codec == "av1"
    assert dirty.codec == "h264"
    for first, cut in ((8, clean), (7, dirty)):
        for k, (_, image) in enumerate(cut.frames()):
            assert np.array_equal(image, whole[(first + k) / 10])


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_cut_between_key_frames_gives_the_very_same_pictures(tmp_path, name):
    video = film(tmp_path / "v.mp4", ENCODINGS[name])
    whole = dict(video.frames())
    cut = cut_video(index_packets(video.path, "front"), 3, 7, "front", np.arange(7) / 10, tmp_path / "cut.mp4")
    for k, (_, image) in enumerate(cut.frames()):
        assert np.array_equal(image, whole[(3 + k) / 10])


@pytest.mark.parametrize(
    ("pixels", "image"),
    [
        ("rgb", np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)),
        ("gray", np.random.default_rng(0).integers(0, 256, (48, 64), dtype=np.uint8)),
        ("depth_mm", np.random.default_rng(0).integers(0, 65536, (48, 64), dtype=np.uint16)),
        ("depth_m", np.random.default_rng(0).normal(size=(48, 64)).astype(np.float32)),
    ],
)
def test_pictures_are_stored_without_loss(tmp_path, pixels, image):
    video = write_pictures([(0.0, image), (0.1, image[::-1])], "cam", tmp_path / "v.mp4", pixels)
    (_, first), (_, second) = video.frames()
    assert np.array_equal(first, image)
    assert np.array_equal(second, image[::-1])


def test_the_nearest_frame_is_found(tmp_path):
    video = film(tmp_path / "v.mp4", ENCODINGS["av1"])
    assert [video.at(t)[0] for t in (-5.0, 0.0, 0.04, 0.06, 99.0)] == [0.0, 0.0, 0.0, 0.1, 2.3]


def test_a_span_of_time_gives_its_frames_only(tmp_path):
    video = film(tmp_path / "v.mp4", ENCODINGS["av1"])
    assert [round(t, 3) for t, _ in video.frames(0.5, 0.8)] == [0.5, 0.6, 0.7]


def test_a_video_shorter_than_its_rows_is_refused(tmp_path):
    video = film(tmp_path / "v.mp4", ENCODINGS["av1"])
    packets = index_packets(video.path, "front")
    with pytest.raises(RecordingError, match=r"has 4 frames for 10 rows.*shorter than its rows"):
        cut_video(packets, 20, 10, "front", np.arange(10) / 10, tmp_path / "cut.mp4")


def test_missing_empty_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(RecordingError, match="is missing"):
        index_packets(tmp_path / "none.mp4", "front")
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(RecordingError, match="0 bytes"):
        index_packets(tmp_path / "empty.mp4", "front")
    (tmp_path / "text.mp4").write_text("this is no video" * 100)
    with pytest.raises(RecordingError, match="cannot be read as video"):
        index_packets(tmp_path / "text.mp4", "front")


def test_a_camera_keeps_one_size(tmp_path):
    with pytest.raises(RecordingError, match="picture 1 has shape"):
        write_pictures([(0.0, picture(0)), (0.1, picture(0)[:24])], "cam", tmp_path / "v.mp4")


def test_a_film_of_nothing_is_refused(tmp_path):
    with pytest.raises(RecordingError, match="no pictures"):
        film(tmp_path / "c.mp4", ENCODINGS["av1"], count=0)


def test_the_hash_names_pictures_and_stamps_and_not_the_file(tmp_path):
    one, other = (film(tmp_path / name, ENCODINGS["av1"]) for name in ("a.mp4", "b.mp4"))
    assert one == other
    assert replace(one, time_s=one.time_s + 0.01) != one


def jpeg_film(path: Path, pix_fmt: str, luma: np.ndarray, chroma: int) -> Video:
    """One full-range frame whose samples are given, stored without loss."""
    import av
    from av.video.reformatter import ColorRange

    height, width = luma.shape
    frame = av.VideoFrame(width, height, pix_fmt)
    for k, plane in enumerate(frame.planes):
        rows = np.full((plane.height, plane.line_size), chroma, np.uint8)
        if k == 0:
            rows[:, :width] = luma
        plane.update(rows.tobytes())
    frame.color_range, frame.pts = ColorRange.JPEG, 0
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=10, options={"qp": "0"})
        stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
        stream.codec_context.color_range = ColorRange.JPEG
        output.mux(stream.encode(frame))
        output.mux(stream.encode())
    packets = index_packets(path, "front")
    return Video("front", path, "rgb", "h264", width, height, np.zeros(1), packets.pts, packets.key, "0" * 64)


@pytest.mark.parametrize("pix_fmt", ["yuvj420p", "yuvj444p"])
def test_a_full_range_frame_decodes_as_bright_as_it_is(tmp_path, pix_fmt):
    luma = np.repeat(np.arange(40, 200, dtype=np.uint8)[None], 32, axis=0)
    video = jpeg_film(tmp_path / "v.mp4", pix_fmt, luma, chroma=138)
    (_, picture), off = next(video.frames()), 138 - 128
    # JFIF: the matrix of BT.601, samples from 0 to 255
    want = luma[..., None] + off * np.array([1.402, -0.344136 - 0.714136, 1.772])
    error = picture[4:-4, 8:-8].astype(float) - want[4:-4, 8:-8]
    assert np.abs(error).max() < 0.55  # nearest whole numbers; the fast conversion is 1 too dark and more
