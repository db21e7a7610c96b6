"""Archives: whole ones are read like folders, hostile ones are refused before anything is unpacked outside."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.ingest.test_folder import rig, table
from twinproof.ingest import archive
from twinproof.ingest.read import ingest
from twinproof.nouns.errors import RecordingError


def packed(tmp_path: Path, name: str) -> Path:
    table(tmp_path / "data" / "src" / "e" / "state.csv")
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as out:
            out.write(tmp_path / "data/src/e/state.csv", "src/e/state.csv")
    elif name.endswith(".zst"):
        import zstandard

        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as out_tar:
            out_tar.add(tmp_path / "data", ".")
        path.write_bytes(zstandard.compress(buffer.getvalue()))
    else:
        with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as out_tar:
            out_tar.add(tmp_path / "data" / "src", "src")
    return path


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tgz", "a.tar.zst"])
def test_an_archive_is_read_like_its_folder(tmp_path, name):
    made = ingest(packed(tmp_path, name), rig(), tmp_path / "out")
    assert len(made.episodes) == 1
    assert made.source["name"] == name
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["data", "out", name])


def test_a_cut_archive_is_refused(tmp_path):
    for name in ("a.zip", "a.tar.gz", "a.tar.zst"):
        path = packed(tmp_path / name, name)
        path.write_bytes(path.read_bytes()[:-60])
        with pytest.raises(RecordingError):
            ingest(path, rig(), tmp_path / "out")
        path.write_bytes(b"")
        with pytest.raises(RecordingError):
            ingest(path, rig(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../evil.csv", "/tmp/evil_twinproof.csv", "a/../../evil.csv", "..\\evil.csv"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_member_that_leaves_the_folder_is_refused(tmp_path, name, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as out:
            out.writestr(zipfile.ZipInfo(name), "time_s,a\n0,1\n")
    else:
        with tarfile.open(path, "w") as out_tar:
            member = tarfile.TarInfo(name)
            member.size = 3
            out_tar.addfile(member, io.BytesIO(b"abc"))
    with pytest.raises(RecordingError, match="leaves the archive's folder"):
        ingest(path, rig(), tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        member = tarfile.TarInfo("innocent.csv")
        member.type, member.linkname = kind, "/etc/passwd"
        out.addfile(member)
    with pytest.raises(RecordingError, match="link or a device"):
        ingest(tmp_path / "a.tar", rig(), tmp_path / "out")


def test_a_link_in_a_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        entry = zipfile.ZipInfo("innocent.csv")
        entry.external_attr = 0o120777 << 16
        out.writestr(entry, "/etc/passwd")
    with pytest.raises(RecordingError, match="link or a device"):
        ingest(tmp_path / "a.zip", rig(), tmp_path / "out")


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "FREE_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("zeros.csv", b"0" * (64 << 20))
    with pytest.raises(RecordingError, match="bomb"):
        ingest(tmp_path / "a.zip", rig(), tmp_path / "out")
