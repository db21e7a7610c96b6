"""The transfer study compares policies that differ in nothing but what their worlds were drawn from."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.evidence import chain
from tests.sim.motions import PENDULUM
from twinproof import cli_evaluate
from twinproof.cli import main
from twinproof.cli_study import StudyTransfer, _plan
from twinproof.fleet.local import Here
from twinproof.nouns.belief import Discrepancy
from twinproof.nouns.errors import ConfigError
from twinproof.nouns.policy import Policy
from twinproof.nouns.progress import quiet
from twinproof.nouns.randomization import Randomization
from twinproof.nouns.source import Declared
from twinproof.nouns.split import Split
from twinproof.reconstruct.declare import declared
from twinproof.sim.parameters.resolve import parameter
from twinproof.sim.scene import Scene
from twinproof.study import examined, train_one, trained
from twinproof.study_page import write_page
from twinproof.study_plan import Plan, trains_with_error, variants, with_gaps
from twinproof.study_table import Row, gap_lines, ranks, reasons, table, verdict, verdicts

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


@pytest.fixture(scope="module")
def limited(run, tmp_path_factory):
    """A run whose robot has limits, as training needs them."""
    folder = tmp_path_factory.mktemp("limited")
    (folder / "posterior").symlink_to(run / "posterior")
    (folder / "files").mkdir()
    scene = Scene(PENDULUM.replace("<motor ", '<motor ctrlrange="-2 2" ').replace('"0.004"', '"0.002"'))
    twin = declared(scene, "scene.xml", Split.load(run / "split").parts()[0], folder / "files")
    twin.save(folder / "twin")
    ranges = Randomization.load(run / "randomization")
    replace(ranges, parents={**ranges.parents, "twin": twin.hash}).save(folder / "randomization")
    return folder


def test_a_variant_with_model_error_needs_one_that_is_played(limited, tmp_path):
    for name in ("twin", "posterior"):
        (tmp_path / name).symlink_to(limited / name)
    base = Randomization.load(limited / "randomization")
    plan = Plan(tmp_path, SMALL, ("posterior", "posterior_error"))
    grows = Discrepancy("state.hinge", "rad", (0.02, 0.05, 0.1), (0.001, 0.004, 0.01))
    for k, stated in enumerate(((), (replace(grows, sd=(0.01, 0.01, 0.01)),), (grows,))):
        replace(base, discrepancy=stated).save(tmp_path / "randomization")
        if k < 2:
            with pytest.raises(ConfigError, match="carries no model error that grows with time of a joint"):
                variants(plan)
            shutil.rmtree(tmp_path / "randomization")
    made = variants(plan)
    assert made["posterior_error"] == made["posterior"]
    assert [trains_with_error(name) for name in made] == [False, True]


def test_what_people_stated_is_drawn_about_the_point(limited, tmp_path):
    for name in ("twin", "posterior"):
        (tmp_path / name).symlink_to(limited / name)
    base = Randomization.load(limited / "randomization")
    plan = Plan(tmp_path, SMALL, ("point", "stated", "posterior"))
    (tmp_path / "randomization").symlink_to(limited / "randomization")
    with pytest.raises(ConfigError, match="nobody stated a range of dynamics in .*, so that stated would be point"):
        variants(plan)
    (tmp_path / "randomization").unlink()
    first = next(entry for entry in base.ranges if entry.gap == "dynamics")
    late = replace(first, parameter=parameter("actuator.hinge.delay_jitter").info, low=0.0, high=0.02, point=0.01)
    said = replace(late, source=Declared("a person said so"))
    replace(base, ranges=(*base.ranges, said)).save(tmp_path / "randomization")
    made = variants(plan)
    width = {name: {e.id: e.high - e.low for e in each.ranges if e.gap == "dynamics"} for name, each in made.items()}
    assert all(width["stated"][id] == (0.02 if id == said.id else 0.0) for id in width["stated"])
    assert set(width["point"].values()) == {0.0}
    assert width["posterior"][said.id] == 0.02
    assert sum(value > 0 for value in width["posterior"].values()) > 1
    rng = np.random.default_rng(0)
    thetas = [made["stated"].draw(rng) for _ in range(20)]
    assert np.ptp([theta[said.id] for theta in thetas]) > 0.005
    assert np.ptp([theta[first.id] for theta in thetas]) == 0


def test_policies_are_trained_once_and_come_with_a_page(limited, tmp_path):
    plan = Plan(limited, SMALL, ("nominal", "posterior"), seeds=1)
    first = trained(plan, tmp_path / "study", Here(), quiet)
    assert {name: len(folders) for name, folders in first.items()} == {"nominal": 1, "posterior": 1}
    policies = {name: Policy.load(folders[0]) for name, folders in first.items()}
    assert policies["nominal"].hash != policies["posterior"].hash
    seen = []
    again = trained(plan, tmp_path / "study", Here(), lambda done, name, total=None: seen.append((done, name)))
    assert again == first
    assert seen == [(2, "from the store")]
    told = {f"{name}_0": {"real": {"successes": 5, "trials": 10}} for name in plan.variants}
    (tmp_path / "summary.json").write_text(json.dumps({"format": "twinproof/trials-summary/1", "success": told}))
    page = write_page(plan, first, tmp_path, tmp_path, {"domains": ["real=10"], "reality": "lab:pendulum"})
    assert page[0] == "| variant | what it is | seeds | own worlds | real |"
    assert any("no difference from nominal (+0, one alone) that 1 seed could tell" in line for line in page)
    assert (tmp_path / "transfer.md").read_text() == "\n".join([*page, ""])
    rows = json.loads((tmp_path / "transfer.json").read_text())["rows"]
    assert [row["rates"]["real"] for row in rows] == [[0.5], [0.5]]
    assert (tmp_path / "transfer.png").stat().st_size > 1000


def test_a_policy_may_stand_on_one_that_imitates(limited, tmp_path):
    first = {**SMALL, "algo": "dagger"}
    where = (str(limited / "twin"), str(limited / "randomization"))
    train_one(tmp_path / "made", *where, {**SMALL, "algo": "residual"}, 0, first)
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
    assert "no difference from point (+50, -13 to +113) that 2 seeds could tell" in verdict(rows)
    assert verdict([Row("point", {})]).startswith("Not tested")
    assert verdict(rows[1:]).startswith("Not tested: nothing stands beside")
    assert verdicts(rows[1:]) == [verdict(rows[1:])]


def rated(variant, **domains):
    return Row(variant, {domain: tuple(rates) for domain, rates in domains.items()})


def test_only_pairs_of_seeds_that_agree_beat_anything():
    best = rated("posterior", real=(0.5, 0.9, 0.7, 0.6, 0.8))
    rows = [best, rated("wide", real=(0.3, 0.7, 0.5, 0.4, 0.5)), rated("point", real=(0.6, 0.8, 0.7, 0.6, 0.7))]
    said = verdict([*rows, rated("nominal", real=(0.6, 1.0, 0.9, 0.7, 0.9))])
    assert "beat wide (+22, +18 to +26)" in said
    assert "no difference from point (+2, -6 to +10) that 5 seeds could tell" in said
    assert "fall behind nominal (-12, -16 to -8)" in said


def test_reasons_say_what_the_numbers_show():
    point = rated("point", real=(0.8, 0.8), twin=(1.0, 1.0), draws=(0.98, 0.98))
    best = rated("posterior", real=(0.8, 0.8), twin=(1.0, 1.0), draws=(1.0, 1.0))
    said = " ".join(reasons([point, best], 0.1))
    assert "10% as wide" in said
    assert "what stays uncertain costs them little" in said
    fails = {"real": (0.0, 0.0), "twin": (0.0, 0.0), "draws": (0.0, 0.0)}
    none = " ".join(reasons([rated("point", **fails), rated("posterior", **fails)], 0.1))
    assert "succeed in 0% at the point itself: what ranges could win back is not told" in none
    assert "18 points of point, 20 of posterior" in said
    fragile = rated("point", real=(0.8, 0.8), twin=(1.0, 1.0), draws=(0.7, 0.7))
    assert "costs them 30 points, which ranges could win back" in " ".join(reasons([fragile, best]))
    unlearned = rated("posterior", real=(0.1, 0.1), draws=(0.3, 0.3), **{"own worlds": (0.5, 0.5)})
    said = reasons([point, unlearned])
    assert "have not learned all of them" in said[0]
    assert "they cost 20 points in draws of the posterior already" in said[1]
    assert "hand-set ranges do for it" in reasons([point, best, rated("wide", real=(0.5, 0.5), twin=(1.0, 1.0))])[-1]
    assert "do not do for it" in reasons([point, best, rated("wide", real=(0.5, 0.5), twin=(0.2, 0.2))])[-1]


def test_reconstruction_is_worth_what_pairs_with_and_without_it_show():
    rows = [rated("posterior-off", real=(0.1, 0.2, 0.3)), rated("posterior-on", real=(0.8, 0.9, 1.0))]
    assert verdicts(rows)[-1] == (
        "Zeros of encoders from pictures are worth to posterior in reality, in points: +70, +70 to +70."
    )


def test_ranks_stand_beside_what_a_perfect_twin_shows():
    one = {"value": 0.81, "low": 0.5, "high": 1.0}
    told = {"policies": 20, "pearson": one, "mmrv": {"value": 0.02, "low": 0.0, "high": 0.1}}
    told["ceiling"] = {"pearson": [0.7, 0.9, 0.97], "mmrv": [0.01, 0.06]}
    assert ranks({"agreement": {"twin": told}})[-1] == (
        "| twin | 20 | 0.81 (0.50 to 1.00) | 0.90 (0.70 to 0.97) | 0.020 (0.000 to 0.100) | 0.010, below 0.060 |"
    )
    assert "one side does not vary" in ranks({"agreement": {"twin": {**told, "pearson": None}}})[-1]
    assert ranks({"agreement": None}) == []


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


def test_strengths_and_hand_set_widths_stand_about_what_was_identified(run):
    made = variants(Plan(run, SMALL, ("point", "mild", "posterior", "strong", "wide_identified", "wide")))
    id = "joint.hinge.damping"
    at = {name: each.range(id) for name, each in made.items()}
    widths = [at[name].high - at[name].low for name in ("point", "mild", "posterior", "strong")]
    assert widths == sorted(widths)
    assert widths[0] == 0
    assert at["wide_identified"].low < at["point"].point < at["wide_identified"].high
    assert at["wide_identified"].point == at["point"].point != at["wide"].point
    assert id not in made["wide_identified"].joint
    others = [e for e in made["posterior"].ranges if e.gap != "dynamics"]
    assert all([e for e in each.ranges if e.gap != "dynamics"] == others for each in made.values())


def test_what_people_stated_is_hand_set_already(run, tmp_path):
    base = Randomization.load(run / "randomization")
    tilt = {"parameter": parameter("gravity.tilt_y").info, "low": -0.01, "high": 0.01, "point": 0.0}
    stated = replace(base.range("light.lamp.intensity"), gap="dynamics", **tilt)
    doubted = [replace(e, source=stated.source) if e.id == "joint.hinge.damping" else e for e in base.ranges]
    for name in ("twin", "posterior"):
        (tmp_path / name).symlink_to(run / name)
    replace(base, ranges=(*doubted, stated)).save(tmp_path / "randomization")
    made = variants(Plan(tmp_path, SMALL))
    assert made["wide"].range("gravity.tilt_y") == made["posterior"].range("gravity.tilt_y") == stated
    assert made["point"].range("gravity.tilt_y").high == 0
    hinge = made["wide"].range("joint.hinge.damping")
    assert hinge.point != base.range("joint.hinge.damping").point, "data did not determine it, and still moved it"


def test_a_gap_is_one_wrong_thing_that_hand_set_ranges_about_it_still_hold(run, tmp_path):
    plan = with_gaps(Plan(run, SMALL, ("nominal", "point")))
    assert plan.variants == (
        "nominal", "point", "posterior", "wrong_friction", "wrong_friction_wide", "wrong_mass", "wrong_mass_wide",
    )  # fmt: skip
    made = variants(plan)
    for what, id, factor in (("friction", "joint.hinge.damping", 2), ("mass", "body.bob.mass", 1.25)):
        truth, most = made["point"].range(id).point, made["point"].range(id).parameter.high
        wrong, drawn = made[f"wrong_{what}"], made[f"wrong_{what}_wide"].range(id)
        assert wrong.range(id).low == wrong.range(id).high == pytest.approx(min(factor * truth, most))
        assert drawn.low < truth < drawn.high
        same = [entry.id for entry in wrong.ranges if entry == made["point"].range(entry.id)]
        assert "actuator.hinge.gain" in same
        assert id not in same
    with pytest.raises(ConfigError, match="no range of noise"):
        variants(Plan(run, SMALL, ("point", "wrong_noise")))


def test_readings_without_noise_are_wrong_where_some_was_measured(run, tmp_path):
    base = Randomization.load(run / "randomization")
    info = parameter("joint.hinge.position_noise").info
    noisy = replace(base.range("actuator.hinge.delay"), parameter=info, low=0.001, high=0.003, point=0.002)
    for name in ("twin", "posterior"):
        (tmp_path / name).symlink_to(run / name)
    replace(base, ranges=(*base.ranges, noisy)).save(tmp_path / "randomization")
    made = variants(Plan(tmp_path, SMALL, ("point", "wrong_noise", "wrong_noise_wide")))
    found = {name: (each.range(noisy.id).low, each.range(noisy.id).high) for name, each in made.items()}
    assert found == {"point": (0.001, 0.003), "wrong_noise": (0.0, 0.0), "wrong_noise_wide": (0.0, 0.004)}


def test_the_gap_analysis_tells_costs_and_what_remedies_win_back():
    good = {"real": (0.9, 0.9), "twin": (1.0, 1.0), "own worlds": (1.0, 1.0)}
    rows = [rated("point", **good), rated("wrong_mass", real=(0.2, 0.4), twin=(0.5, 0.5), **{"own worlds": (1.0, 1.0)})]
    rows += [rated("wrong_mass_wide", real=(0.6, 0.8), twin=(0.9, 0.9))]
    assert gap_lines(rows)[-1] == (
        "| mass | -70, -133 to -7 | -50, -50 to -50 | -60, -123 to +3 | +40, +40 to +40 | +60, -3 to +123 | not run |"
    )
    assert gap_lines(rows[:1]) == []


def test_looks_are_no_variant_of_a_policy_that_sees_no_pictures(run):
    with pytest.raises(ConfigError, match="see no pictures"):
        Plan(run, SMALL, ("visual", "dynamics"))
    made = variants(Plan(run, {**SMALL, "cameras": ["front"]}, ("point", "visual", "dynamics", "posterior")))
    lamp = {name: each.range("light.lamp.intensity") for name, each in made.items()}
    assert lamp["dynamics"].low == lamp["dynamics"].high == lamp["dynamics"].point
    assert lamp["visual"] == lamp["posterior"]
    assert lamp["point"] == lamp["dynamics"]
    swing = {name: each.range("joint.hinge.damping") for name, each in made.items()}
    assert swing["visual"].low == swing["visual"].high == swing["visual"].point
    assert swing["dynamics"] == swing["posterior"]
    assert swing["point"] == swing["visual"]
    assert len({each.hash for each in made.values()}) == 4


def test_reconstruction_can_be_left_out_only_where_it_told_something(run, tmp_path):
    with pytest.raises(ConfigError, match="told no encoder's zero"):
        variants(Plan(run, SMALL, ("posterior-on", "posterior-off")))
    base = Randomization.load(run / "randomization")
    template = next(entry for entry in base.ranges if entry.source.kind == "inferred")
    zero = replace(template, parameter=parameter("joint.hinge.offset").info, low=0.03, high=0.05, point=0.04)
    for name in ("twin", "posterior"):
        (tmp_path / name).symlink_to(run / name)
    replace(base, ranges=(*base.ranges, replace(zero, gap="sensor"))).save(tmp_path / "randomization")
    names = ("nominal-off", "nominal-on", "wide-on", "posterior-off", "posterior-on")
    found = {
        name: {entry.id: (entry.low, entry.high) for entry in each.ranges}.get("joint.hinge.offset")
        for name, each in variants(Plan(tmp_path, SMALL, names)).items()
    }
    assert found["nominal-off"] is None
    assert found["nominal-on"] == (0.04, 0.04)
    assert found["wide-on"] == pytest.approx((0.01, 0.07))
    assert found["posterior-off"] is None
    assert found["posterior-on"] == (0.03, 0.05)


def test_a_robot_begins_where_it_was_recorded_if_its_scene_does_not_say(run, tmp_path):
    part = Split.load(run / "split").parts()[0]
    home = {}
    for kind in ('motor ctrlrange="-2 2"', 'position kp="3"'):  # a motor's says: where nothing is told to pull
        folder = tmp_path / kind[:5]
        (folder / "files").mkdir(parents=True)
        for name in ("split", "posterior", "randomization"):
            (folder / name).symlink_to(run / name)
        scene = Scene(PENDULUM.replace("<motor", f"<{kind}"))
        declared(scene, "scene.xml", part, folder / "files").save(folder / "twin")
        home[kind[:5]] = _plan(StudyTransfer(folder, out=tmp_path)).training.get("home")
    assert home["motor"] is None
    (told,) = home["posit"]
    first = [episode.signals["state"].value[0, 0] for episode in part.recording.episodes]
    assert float(told.removeprefix("hinge=")) == np.median(first)


@pytest.mark.parametrize(
    ("more", "told"), [((), "needs a reality"), (("--robot", "lab:pendulum", "--on", "moon"), "is no place for work")]
)
def test_a_study_without_a_reality_or_with_a_wrong_place_says_so(run, tmp_path, capsys, more, told):
    with pytest.raises(SystemExit):
        main(["study", "transfer", str(run), "--out", str(tmp_path / "study"), *more])
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(("change", "told"), [("", "a study of ways"), ("stated delays", "stated delays")])
def test_what_changed_since_the_holdout_was_open_is_passed_on(run, tmp_path, monkeypatch, change, told):
    opened = []
    monkeypatch.setattr(cli_evaluate, "panel", lambda config: config.out.mkdir(parents=True))
    monkeypatch.setattr(cli_evaluate, "evaluate", lambda config: opened.append(config.change))
    examined(Plan(run, SMALL), {}, tmp_path, {"task": "reach"}, "lab:pendulum", change)
    assert [each.startswith(told) for each in opened] == [True]
