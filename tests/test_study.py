"""The transfer study compares policies that differ in nothing but what their worlds were drawn from."""

import json
from dataclasses import replace

import pytest

from tests.evidence import chain
from tests.sim.motions import PENDULUM
from twinproof.cli import main
from twinproof.fleet.local import Here
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.policy import Policy
from twinproof.nouns.progress import quiet
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.split import Split
from twinproof.reconstruct.declare import declared
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.scene import Scene
from twinproof.study import Plan, Row, table, train_one, trained, variants, verdict

SMALL = {"task": "reach", "algo": "ppo", "worlds": 8, "steps": 192, "hidden": [8], "probe": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "run"
    chain.build(folder)
    return folder


def test_variants_differ_in_dynamics_alone(run):
    made = variants(Plan(run, SMALL))
    others = {name: [entry for entry in each.ranges if entry.gap != "dynamics"] for name, each in made.items()}
    assert all(entries == others["posterior"] for entries in others.values())
    dynamics = {name: {e.id: e for e in each.ranges if e.gap == "dynamics"} for name, each in made.items()}
    assert dynamics["nominal"] == {}
    assert made["posterior"] == Randomization.load(run / "randomization")
    for id, entry in dynamics["point"].items():
        assert entry.low == entry.high == dynamics["posterior"][id].point
    for id, entry in dynamics["wide"].items():
        assert entry.source.kind == "declared"
        assert entry.high > entry.low
        assert "by hand" in entry.reason, id


def test_policies_are_trained_once(run, tmp_path):
    for name in ("posterior", "randomization"):
        (tmp_path / name).symlink_to(run / name)
    (tmp_path / "files").mkdir()
    limited = Scene(PENDULUM.replace("<motor ", '<motor ctrlrange="-2 2" ').replace('"0.004"', '"0.002"'))
    declared(limited, "scene.xml", Split.load(run / "split").parts()[0], tmp_path / "files").save(tmp_path / "twin")
    plan = Plan(tmp_path, SMALL, ("nominal", "posterior"), seeds=1)
    first = trained(plan, tmp_path / "study", Here(), quiet)
    assert {name: len(folders) for name, folders in first.items()} == {"nominal": 1, "posterior": 1}
    policies = {name: Policy.load(folders[0]) for name, folders in first.items()}
    assert policies["nominal"].hash != policies["posterior"].hash
    seen = []
    again = trained(plan, tmp_path / "study", Here(), lambda done, name, total=None: seen.append((done, name)))
    assert again == first
    assert seen == [(2, "from the store")]


def test_a_policy_may_stand_on_one_that_imitates(run, tmp_path):
    for name in ("posterior", "randomization"):
        (tmp_path / name).symlink_to(run / name)
    (tmp_path / "files").mkdir()
    limited = Scene(PENDULUM.replace("<motor ", '<motor ctrlrange="-2 2" ').replace('"0.004"', '"0.002"'))
    declared(limited, "scene.xml", Split.load(run / "split").parts()[0], tmp_path / "files").save(tmp_path / "twin")
    ranges = tmp_path / "randomization"
    first = {**SMALL, "algo": "dagger"}
    train_one(tmp_path / "made", str(tmp_path / "twin"), str(ranges), {**SMALL, "algo": "residual"}, 0, first)
    base, policy = Policy.load(tmp_path / "made" / "base"), Policy.load(tmp_path / "made" / "policy")
    assert base.training["algorithm"] == "dagger"
    assert policy.parents["base"] == base.hash
    assert "base_success" in json.loads((tmp_path / "made" / "twin_success.json").read_text())


def test_encoders_whose_zeros_pictures_told_belong_to_what_is_compared(run, tmp_path):
    base = Randomization.load(run / "randomization")
    template = next(entry for entry in base.ranges if entry.source.kind == "inferred")
    zero = replace(template, parameter=parameter("joint.hinge.offset").info, low=0.03, high=0.05, point=0.04)
    for name in ("twin", "posterior"):
        (tmp_path / name).symlink_to(run / name)
    replace(base, ranges=(*base.ranges, replace(zero, gap="sensor"))).save(tmp_path / "randomization")
    found = {
        name: {entry.id: (entry.low, entry.high) for entry in each.ranges}.get("joint.hinge.offset")
        for name, each in variants(Plan(tmp_path, SMALL)).items()
    }
    assert found == {"nominal": None, "wide": (-0.03, 0.03), "point": (0.04, 0.04), "posterior": (0.03, 0.05)}


def test_the_table_takes_seeds_as_units(tmp_path):
    plan = Plan(tmp_path, SMALL, ("point", "posterior"), seeds=2)
    rates = {"point_0": 2, "point_1": 4, "posterior_0": 8, "posterior_1": 8}
    told = {name: {"real": {"successes": count, "trials": 10}} for name, count in rates.items()}
    (tmp_path / "summary.json").write_text(json.dumps({"format": "twinproof/trials-summary/1", "success": told}))
    rows = table(plan, tmp_path)
    assert rows[0].success["real"][0] == pytest.approx(0.3)
    assert rows[0].success["real"][1] == 0.0, "two seeds tell little"
    assert rows[1].success["real"] == pytest.approx((0.8, 0.8, 0.8))
    assert verdict(rows) == ("In reality the posterior's ranges beat point (80 % against 30 %), over 2 seeds.")
    worse = [replace(rows[0], variant="posterior"), replace(rows[1], variant="wide")]
    assert "do not beat wide (30 % against 80 %)" in verdict(worse)
    assert verdict([Row("point", 1, {})]).startswith("Not tested")


def test_one_seed_says_nothing_about_spread(tmp_path):
    told = {f"{name}_0": {"real": {"successes": 5, "trials": 10}} for name in ("point", "wide")}
    (tmp_path / "summary.json").write_text(json.dumps({"format": "twinproof/trials-summary/1", "success": told}))
    rows = table(Plan(tmp_path, SMALL, ("point", "wide"), seeds=1), tmp_path)
    assert rows[0].success["real"] == (0.5, 0.0, 1.0)


def test_a_study_that_cannot_compare_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot compare"):
        Plan(tmp_path, SMALL, ("posterior",))


def test_ranges_of_dynamics_alone_are_refused(run, tmp_path):
    base = Randomization.load(run / "randomization")
    kept = tuple(entry for entry in base.ranges if entry.gap == "dynamics")
    for name in ("twin", "posterior"):
        (tmp_path / name).symlink_to(run / name)
    replace(base, ranges=kept).save(tmp_path / "randomization")
    with pytest.raises(ConfigError, match="dynamics alone"):
        variants(Plan(tmp_path, SMALL))


@pytest.mark.parametrize(
    ("more", "told"), [((), "needs a reality"), (("--robot", "lab:pendulum", "--on", "moon"), "is no place for work")]
)
def test_a_study_without_a_reality_or_with_a_wrong_place_says_so(run, tmp_path, capsys, more, told):
    with pytest.raises(SystemExit):
        main(["study", "transfer", str(run), "--out", str(tmp_path / "study"), *more])
    assert told in capsys.readouterr().err
