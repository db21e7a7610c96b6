"""A pool of transfer studies: robots are the units, and only studies of one design are pooled."""

import json

import pytest

from twinproof.cli import main
from twinproof.nouns.errors import ConfigError
from twinproof.study_page import FORMAT
from twinproof.study_pool import write_pool

POINT = ((0.5, 0.3), (0.2, 0.2), (0.7, 0.9), (0.4, 0.4))  # robot, seed
POSTERIOR = ((0.7, 0.7), (0.4, 0.2), (0.9, 0.9), (0.6, 0.7))


def study(folder, point, posterior, panel=(), **training):
    rows = [
        {"variant": name, "rates": {"own worlds": [1.0] * len(rates), "real": list(rates)}}
        for name, rates in (("point", point), ("posterior", posterior))
    ]
    sat = {"task": "reach", "domains": ["real=10"], "reality": f"lab:pendulum?plant={folder.name}", **dict(panel)}
    training = {"steps": 10, "home": [f"elbow=0.9{len(str(folder))}"], **training}
    told = {"format": FORMAT, "rows": rows, "training": training, "imitation": None, "panel": sat, "twin": str(folder)}
    folder.mkdir(parents=True)
    (folder / "transfer.json").write_text(json.dumps(told))
    return folder


@pytest.fixture
def studies(tmp_path):
    return [study(tmp_path / f"robot_{k}", *rates) for k, rates in enumerate(zip(POINT, POSTERIOR, strict=True))]


def test_robots_are_the_units_and_seeds_their_mean(studies, tmp_path):
    page = write_pool(studies, tmp_path / "pool")
    told = json.loads((tmp_path / "pool" / "pool.json").read_text())
    rates = {row["variant"]: row["rates"]["real"] for row in told["rows"]}
    assert rates["point"] == pytest.approx([0.4, 0.2, 0.8, 0.4])
    assert rates["posterior"] == pytest.approx([0.7, 0.3, 0.9, 0.65])
    assert any("the posterior's ranges beat point (+19, +7 to +31)" in line for line in page)
    assert "over robots." in told["verdict"][0]
    assert "| robot_2 | 80 % | 90 % |" in page
    assert (tmp_path / "pool" / "pool.md").read_text().splitlines() == "\n".join(page).splitlines()
    assert (tmp_path / "pool" / "pool.png").stat().st_size > 5_000


def test_the_command_prints_the_page(studies, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["study", "pool", *map(str, studies), "--out", str(tmp_path / "pool")])
    assert not ended.value.code
    assert "| robot_0 | 40 % | 70 % |" in capsys.readouterr().out


def test_studies_of_another_design_or_no_study_are_refused(studies, tmp_path):
    with pytest.raises(ConfigError, match="1 study is no pool"):
        write_pool(studies[:1], tmp_path / "pool")
    with pytest.raises(ConfigError, match="stands twice"):
        write_pool([*studies, studies[0]], tmp_path / "pool")
    with pytest.raises(ConfigError, match="stands twice"):
        write_pool([*studies, studies[0] / ".." / studies[0].name], tmp_path / "pool")
    other = study(tmp_path / "longer", POINT[0], POSTERIOR[0], steps=20)
    with pytest.raises(ConfigError, match="training steps is 20 in one and 10 in the other"):
        write_pool([*studies, other], tmp_path / "pool")
    seeing = study(tmp_path / "seeing", POINT[0], POSTERIOR[0], cameras=["front"])
    with pytest.raises(ConfigError, match=r"training cameras is \['front'\] in one and None in the other"):
        write_pool([*studies, seeing], tmp_path / "pool")
    short = study(tmp_path / "short", POINT[0], POSTERIOR[0], panel={"domains": ["real=4"]})
    with pytest.raises(ConfigError, match=r"the panel's domains is \['real=4'\] in one and \['real=10'\]"):
        write_pool([*studies, short], tmp_path / "pool")
    fewer = study(tmp_path / "fewer", POINT[0][:1], POSTERIOR[0][:1])
    with pytest.raises(ConfigError, match=r"seeds is \[1\] in one and \[2\]"):
        write_pool([*studies, fewer], tmp_path / "pool")
    with pytest.raises(ConfigError, match=r"transfer\.json"):
        write_pool([*studies, tmp_path / "nothing"], tmp_path / "pool")
    assert not (tmp_path / "pool").exists()


def test_a_robot_counts_once(studies, tmp_path):
    same = study(tmp_path / "again", POINT[0], POSTERIOR[0], panel={"reality": "lab:pendulum?plant=robot_0"})
    with pytest.raises(ConfigError, match=r"again and .*robot_0 are studies of one robot \(lab:pendulum"):
        write_pool([*studies, same], tmp_path / "pool")
    told = json.loads((same / "transfer.json").read_text())
    told["panel"]["reality"], told["twin"] = "robot.py", str(studies[1])
    (same / "transfer.json").write_text(json.dumps(told))
    with pytest.raises(ConfigError, match=r"again and .*robot_1 are studies of one robot"):
        write_pool([*studies, same], tmp_path / "pool")


def test_robots_whose_folders_end_alike_are_told_apart(tmp_path):
    both = [study(tmp_path / name / "study", POINT[0], POSTERIOR[0], panel={"reality": name}) for name in ("a", "b")]
    page = write_pool(both, tmp_path / "pool")
    assert f"| {both[0]} | 40 % | 70 % |" in page
    assert f"| {both[1]} | 40 % | 70 % |" in page
