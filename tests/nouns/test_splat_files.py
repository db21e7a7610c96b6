"""Splat files: what is written is read back; what lies is refused; SPZ decodes by its specification."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nouns.test_splats import splats
from twinproof.nouns.errors import SplatError
from twinproof.nouns.splat_files import read_ply, write_ply, write_spz
from twinproof.nouns.splats import Splats
from twinproof.nouns.twin_files import SPLAT_FIELDS, splat_header

ARRAYS = ("means", "quats_wxyz", "logit_opacities", "sh", "group")


def same(one: Splats, other: Splats) -> bool:
    scales = 2 if one.flat else 3
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ARRAYS)
    return arrays and np.array_equal(one.log_scales[:, :scales], other.log_scales[:, :scales])


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("coefficients", [1, 4, 9, 16])
def test_what_is_written_is_read_back(tmp_path, coefficients, flat):
    whole = splats(coefficients=coefficients, flat=flat, groups=("background", "a mug, hellblau · 茶"))
    write_ply(tmp_path / "s.ply", whole)
    again = read_ply(tmp_path / "s.ply")
    assert same(whole, again)
    assert (again.groups, again.flat, again.degree) == (whole.groups, flat, whole.degree)


def test_no_splats_are_written_and_read(tmp_path):
    write_ply(tmp_path / "s.ply", splats(0))
    assert len(read_ply(tmp_path / "s.ply")) == 0
    write_spz(tmp_path / "s.spz", splats(0))
    assert len(gzip.decompress((tmp_path / "s.spz").read_bytes())) == 16


def test_the_layout_is_the_standard_one(tmp_path):
    whole = splats(3, coefficients=16)
    write_ply(tmp_path / "s.ply", whole)
    header = splat_header(tmp_path / "s.ply")
    rest = [f"f_rest_{k}" for k in range(45)]
    assert list(header.fields) == [
        *("x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", *rest, "opacity"),
        *("scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3", "group"),
    ]
    rows = np.fromfile(tmp_path / "s.ply", header.dtype, offset=header.offset)
    assert np.array_equal(rows["f_rest_0"], whole.sh[:, 1, 0])
    assert np.array_equal(rows["f_rest_14"], whole.sh[:, 15, 0])  # all of red first
    assert np.array_equal(rows["f_rest_15"], whole.sh[:, 1, 1])
    assert np.array_equal(rows["rot_0"], whole.quats_wxyz[:, 0])


def foreign(path: Path, columns: dict[str, np.ndarray], kind: str = "float", comments: tuple[str, ...] = ()) -> None:
    """A PLY as another program would write it."""
    rows = np.zeros(3, [(name, "<f4" if kind == "float" else "<f8") for name in columns])
    for name, values in columns.items():
        rows[name] = values
    lines = ["ply", "format binary_little_endian 1.0", *(f"comment {text}" for text in comments), "element vertex 3"]
    lines += [f"property {kind} {name}" for name in columns]
    path.write_bytes("\n".join([*lines, "end_header\n"]).encode() + rows.tobytes())


def columns(**changes: object) -> dict[str, np.ndarray]:
    names = (*SPLAT_FIELDS, "scale_2")
    return {**{name: np.ones(3) for name in names}, **changes}  # type: ignore[dict-item]


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_file_of_another_program_is_one_group(tmp_path, kind):
    foreign(tmp_path / "s.ply", columns(extra=np.zeros(3)), kind, ("made by somebody",))
    assert read_ply(tmp_path / "s.ply").groups == ("background",)
    assert read_ply(tmp_path / "s.ply", ["mug"]).groups == ("mug",)


def test_groups_without_names_are_numbered_or_named_by_the_caller(tmp_path):
    foreign(tmp_path / "s.ply", columns(group=np.arange(3)))
    assert read_ply(tmp_path / "s.ply").groups == ("group_0", "group_1", "group_2")
    assert read_ply(tmp_path / "s.ply", ("a", "b", "c")).of("c").means.shape == (1, 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": np.array([0, np.nan, 0])}, r"s.ply: splats: 1 rows of means are not finite \(first: 1\)"),
        ({"opacity": np.full(3, np.inf)}, "rows of logit_opacities are not finite"),
        ({"rot_0": 0, "rot_1": 0, "rot_2": 0, "rot_3": 0}, "quaternion 0 0 0 0"),
        ({"f_rest_0": np.zeros(3)}, "it has 1 fields f_rest_.*0, 9, 24, 45 in all"),
        ({f"f_rest_{k}": np.zeros(3) for k in range(1, 10)}, "it has 9 fields f_rest_"),
        ({"group": np.array([0, 0.5, 1])}, "count no groups"),
        ({"group": np.array([0, np.nan, 1])}, "count no groups"),
        ({"group": np.array([0, -1, 1])}, "group runs from -1 to 1"),
    ],
)
def test_values_that_break_a_law_are_refused_with_the_file(tmp_path, changes, words):
    foreign(tmp_path / "s.ply", columns(**changes))
    with pytest.raises(SplatError, match=words):
        read_ply(tmp_path / "s.ply")


def test_a_double_beyond_float32_is_not_finite(tmp_path):
    foreign(tmp_path / "s.ply", columns(z=np.full(3, 1e200)), "double")
    with pytest.raises(SplatError, match="3 rows of means are not finite"):
        read_ply(tmp_path / "s.ply")


def test_group_names_that_leave_a_gap_are_refused(tmp_path):
    foreign(tmp_path / "s.ply", columns(group=np.zeros(3)), comments=("group 1 mug",))
    with pytest.raises(SplatError, match=r"name \[1\]"):
        read_ply(tmp_path / "s.ply")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"vertex 12", b"vertex 13", "the header promises"),
        (b"vertex 12", b"vertex 999999999999999", "the header promises"),
        (b"vertex 12", b"vertex 99999999999999999999", "element vertex 9999"),
        (b"binary_little_endian", b"binary_big_endian", "is binary_big_endian; .* Export it as that"),
        (b"binary_little_endian", b"ascii", "is ascii; .* Export it as that"),
        (b"property float x", b"property half x", "the property x has the unknown type 'half'. Write it as float"),
        (b"property float opacity", b"property float opacitx", "lacks the fields opacity"),
        (b"ply\n", b"PLY\n", "no PLY header"),
    ],
)
def test_a_header_that_lies_is_refused_before_anything_is_allocated(tmp_path, old, new, words):
    write_ply(tmp_path / "s.ply", splats())
    (tmp_path / "s.ply").write_bytes((tmp_path / "s.ply").read_bytes().replace(old, new, 1))
    with pytest.raises(SplatError, match=words):
        read_ply(tmp_path / "s.ply")


def test_a_file_that_was_cut_or_is_absent_is_refused(tmp_path):
    write_ply(tmp_path / "s.ply", splats())
    (tmp_path / "s.ply").write_bytes((tmp_path / "s.ply").read_bytes()[:-1])
    with pytest.raises(SplatError, match="It was cut or its header lies"):
        read_ply(tmp_path / "s.ply")
    with pytest.raises(SplatError, match="does not exist"):
        read_ply(tmp_path / "none.ply")


@given(place=st.integers(0, 10**6), data=st.binary(min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_any_bytes_give_splats_or_a_clear_error(tmp_path_factory, place, data):
    path = tmp_path_factory.mktemp("ply") / "s.ply"
    write_ply(path, splats(4))
    whole = bytearray(path.read_bytes())
    place %= len(whole) - len(data)
    whole[place : place + len(data)] = data
    path.write_bytes(whole)
    try:
        read = read_ply(path)
    except SplatError:
        return
    assert len(read) == 4


def test_what_cannot_be_written_is_said_and_nothing_is_left_behind(tmp_path):
    with pytest.raises(SplatError, match="cannot be written"):
        write_ply(tmp_path / "nowhere" / "s.ply", splats())
    for name in ("", " mug", "a\nb"):
        with pytest.raises(SplatError, match="cannot stand in a PLY header"):
            write_ply(tmp_path / "s.ply", splats(groups=("background", name)))
    with pytest.raises(SplatError, match="do not fit into a PLY header"):
        write_ply(tmp_path / "s.ply", splats(groups=tuple(f"{k} " + "x" * 100 + "." for k in range(1000))))
    assert list(tmp_path.iterdir()) == []


def decoded_spz(path: Path) -> dict[str, np.ndarray]:
    """What the specification of SPZ version 3 says the bytes mean."""
    data = gzip.decompress(path.read_bytes())
    magic, version, count, degree, bits, flags, reserved = struct.unpack("<4sIIBBBB", data[:16])
    assert (magic, version, flags, reserved) == (b"NGSP", 3, 0, 0)
    rest = ((degree + 1) ** 2 - 1) * 3
    at, planes = 16, []
    for width in (9, 1, 3, 3, 4, rest):
        planes.append(np.frombuffer(data, np.uint8, width * count, at).reshape(count, width))
        at += width * count
    assert at == len(data)
    low, middle, high = (planes[0].reshape(count, 3, 3)[..., k].astype(int) for k in range(3))
    fixed = low + (middle << 8) + (high << 16)
    quats = np.empty((count, 4))
    for row, (word,) in zip(quats, struct.iter_unpack("<I", planes[4].tobytes()), strict=True):
        largest, left = word >> 30, word
        for k in (3, 2, 1, 0):
            if k != largest:
                row[k] = np.sqrt(0.5) * (left & 511) / 511 * (-1 if left & 512 else 1)
                left >>= 10
        row[largest] = np.sqrt(1 - sum(row[k] ** 2 for k in range(4) if k != largest))
    return {
        "means": np.where(fixed >= 1 << 23, fixed - (1 << 24), fixed) / 2**bits,
        "opacity": planes[1][:, 0] / 255,
        "dc": (planes[2] / 255 - 0.5) / 0.15,
        "log_scales": planes[3] / 16 - 10,
        "quats_wxyz": np.roll(quats, 1, axis=1),
        "rest": ((planes[5].astype(float) - 128) / 128).reshape(count, -1, 3),
    }


@pytest.mark.parametrize("coefficients", [1, 4, 9, 16])
def test_spz_decodes_to_the_same_splats_within_its_steps(tmp_path, coefficients):
    whole = splats(200, coefficients=coefficients)
    write_spz(tmp_path / "s.spz", whole)
    seen = decoded_spz(tmp_path / "s.spz")
    assert seen["means"] == pytest.approx(whole.means, abs=1e-6)
    assert seen["opacity"] == pytest.approx(1 / (1 + np.exp(-whole.logit_opacities)), abs=0.5 / 255 + 1e-6)
    assert seen["dc"] == pytest.approx(whole.sh[:, 0], abs=0.5 / 255 / 0.15 + 1e-6)
    assert seen["log_scales"] == pytest.approx(whole.log_scales, abs=0.5 / 16 + 1e-6)
    unit = whole.quats_wxyz / np.linalg.norm(whole.quats_wxyz, axis=1, keepdims=True)
    assert np.abs((seen["quats_wxyz"] * unit).sum(axis=1)) == pytest.approx(1, abs=1e-5)
    inside = whole.sh[:, 1:].clip(-1, 1)
    assert seen["rest"][:, :3] == pytest.approx(inside[:, :3], abs=4.5 / 128)
    assert seen["rest"][:, 3:] == pytest.approx(inside[:, 3:], abs=16 / 128)


def test_spz_of_a_wide_scene_is_coarser_and_of_surfels_thin(tmp_path):
    far = splats(20, flat=True, means=np.linspace(-5000, 5000, 60).reshape(20, 3))
    write_spz(tmp_path / "s.spz", far)
    seen = decoded_spz(tmp_path / "s.spz")
    assert seen["means"] == pytest.approx(far.means, abs=0.5 / 2**10 + 1e-3)
    assert (seen["log_scales"][:, 2] == -10).all()


def test_spz_never_writes_an_opacity_whose_logit_is_infinite(tmp_path):
    write_spz(tmp_path / "s.spz", splats(logit_opacities=np.tile([-1e20, 1e20], 6)))
    assert set(decoded_spz(tmp_path / "s.spz")["opacity"] * 255) == {1, 254}


def test_spz_of_what_it_cannot_hold_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SplatError, match="SPZ reaches 8388 km"):
        write_spz(tmp_path / "s.spz", splats(means=np.full((12, 3), 1e7)))
    monkeypatch.setattr("twinproof.nouns.splat_files.SPZ_MOST", 10)
    with pytest.raises(SplatError, match="12 splats; SPZ readers take 10 at most"):
        write_spz(tmp_path / "s.spz", splats())


def test_a_file_without_groups_holds_only_what_the_reference_viewer_knows(tmp_path):
    written = splats(5, coefficients=16)
    write_ply(tmp_path / "s.ply", written, groups=False)
    head = (tmp_path / "s.ply").read_bytes().split(b"end_header\n")[0]
    assert head.count(b"property float") == 62
    assert b"group" not in head
    back = read_ply(tmp_path / "s.ply")
    assert back.groups == ("background",)
    assert np.array_equal(back.sh, written.sh)
