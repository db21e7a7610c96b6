"""Segmentation models behind one interface; no weights are there, so stand-ins play them."""

from __future__ import annotations

import base64
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.reconstruct.stand_in import serving
from twinproof.nouns.errors import ConfigError, MissingExtra, RecordingError
from twinproof.nouns.pictures import png_bytes
from twinproof.reconstruct.ask_http import Server
from twinproof.reconstruct.png import png_mask
from twinproof.reconstruct.segmenters import GroundingDino, HttpSegmenter, Sam2, Sam3, Segmenter

RGB = np.zeros((12, 16, 3), np.uint8)
RGB[3:9, 4:12] = (200, 50, 20)
RED = RGB[..., 0] > 100


def text(picture: np.ndarray) -> str:
    return base64.b64encode(png_bytes(picture)).decode()


def honest(path: str, question: dict[str, Any]) -> dict[str, Any]:
    """A stand-in that finds what is red."""
    assert question["format"] == "twinproof/segment/1"
    if path == "/propagate":
        assert question["at"] == 1
        return {"masks": [text(255 * RED.astype(np.uint8)) for _ in question["frames"]]}
    assert base64.b64decode(question["png"]) == png_bytes(RGB)
    whole = np.full(RED.shape, 255, np.uint8)
    return {"masks": [{"png": text(whole), "score": 0.2}, {"png": text(255 * RED.astype(np.uint8)), "score": 0.9}]}


def test_a_model_behind_http_gives_masks_the_best_first():
    with serving(honest) as url:
        segmenter = HttpSegmenter(url)
        for prompt in (
            {"points": np.array([[6.0, 5.0]])},
            {"box": np.array([4, 3, 12, 9])},
            {"words": "the red thing"},
        ):
            (mask, score), second = segmenter.predict(RGB, **prompt)
            np.testing.assert_array_equal(mask, RED)
            assert score == 0.9
            assert second[1] == 0.2


def test_a_model_behind_http_follows_a_video():
    with serving(honest) as url:
        masks = HttpSegmenter(url).propagate([RGB] * 3, 1, points=np.array([[6.0, 5.0]]))
    assert len(masks) == 3
    np.testing.assert_array_equal(masks[2], RED)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (500, "answered 500"),
        (302, "answered 302"),
        (b"no json", "no JSON object"),
        (b"[1]", "no JSON object"),
        ({"other": 1}, "lacks a list of masks"),
        ({"masks": [{"png": "?", "score": 1}]}, "neither a JPEG nor a PNG"),
        ({"masks": [{"png": text(np.zeros((2, 2), np.uint8)), "score": 1}]}, "the mask is 2 × 2, the picture 16 × 12"),
        ({"masks": [{"png": text(np.zeros((12, 16), np.uint8)), "score": "good"}]}, "score is 'good'"),
        ({"masks": [{"png": text(np.zeros((12, 16), np.uint8))[:80], "score": 1}]}, "mask"),
    ],
)
def test_bad_answers_are_errors(answer, says):
    with serving(lambda *_: answer) as url, pytest.raises(RecordingError, match=says):
        HttpSegmenter(url).predict(RGB, words="cup")


def test_a_video_answer_needs_a_mask_for_every_frame():
    with serving(lambda *_: {"masks": []}) as url, pytest.raises(RecordingError, match="0 masks for 2 frames"):
        HttpSegmenter(url).propagate([RGB] * 2, 0, words="cup")
    with serving(lambda *_: {}) as url, pytest.raises(RecordingError, match="one for each frame"):
        HttpSegmenter(url).propagate([RGB] * 2, 0, words="cup")


def test_an_answer_that_is_too_large_is_cut_off():
    with serving(lambda *_: {"masks": ["x" * 5000]}) as url, pytest.raises(RecordingError, match="more than 0 MB"):
        Server(url, most_bytes=1000).ask("predict", {})


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(RecordingError, match="does not answer"):
        HttpSegmenter("http://127.0.0.1:9", timeout_s=2).predict(RGB, words="cup")


def test_pictures_stay_on_this_machine_unless_told():
    for address in ("http://192.0.2.7:80", "https://example.org"):
        with pytest.raises(ConfigError, match="pictures would leave it"):
            HttpSegmenter(address)
        assert HttpSegmenter(address, elsewhere=True).url == address
    with pytest.raises(ConfigError, match="no address of a server"):
        HttpSegmenter("file:///etc/passwd")
    assert HttpSegmenter("http://localhost:1").url
    assert HttpSegmenter("http://[::1]:1").url


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ({}, "the prompt is empty"),
        ({"points": np.array([[3.0, 3.0]]), "labels": np.array([1, 0])}, "Give 1"),
        ({"points": np.array([[30.0, 3.0]])}, "not all inside the picture"),
        ({"box": np.array([5, 5, 2, 9])}, "left, top, right and bottom"),
    ],
)
def test_prompts_that_cannot_be_are_refused(prompt, says):
    with pytest.raises(ConfigError, match=says):
        HttpSegmenter("http://127.0.0.1:9").predict(RGB, **prompt)


def test_pictures_and_frames_that_cannot_be_are_refused():
    segmenter = HttpSegmenter("http://127.0.0.1:9")
    with pytest.raises(RecordingError, match="needed is uint8"):
        segmenter.predict(RGB.astype(float), words="cup")
    with pytest.raises(ConfigError, match="frame 5 of 1 frames"):
        segmenter.propagate([RGB], 5, words="cup")


def test_weights_that_are_not_there_say_where_to_get_them(tmp_path):
    click = {"points": np.array([[6.0, 5.0]])}
    with pytest.raises(ConfigError, match=r"SAM 2: there are no weights.*download_ckpts"):
        Sam2(tmp_path / "none.pt").predict(RGB, **click)
    with pytest.raises(ConfigError, match=r"SAM 3: there are no weights.*asking for access"):
        Sam3(tmp_path / "none.pt").predict(RGB, words="cup")
    with pytest.raises(ConfigError, match=r"Grounding DINO: there are no weights.*IDEA-Research"):
        GroundingDino(tmp_path / "none", then=Sam2(tmp_path / "none.pt")).predict(RGB, words="cup")


def test_a_package_that_is_not_there_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sam2", None)
    weights = tmp_path / "weights.pt"
    weights.write_bytes(b"")
    with pytest.raises(MissingExtra, match=r"SAM 2 needs the package sam2.*pip install -e sam2"):
        Sam2(weights).predict(RGB, points=np.array([[6.0, 5.0]]))


def test_words_need_a_model_that_understands_them(tmp_path):
    with pytest.raises(ConfigError, match="Sam2 does not understand words"):
        Sam2(tmp_path / "none.pt").predict(RGB, words="cup")


def fake(monkeypatch: pytest.MonkeyPatch, **modules: dict[str, Any]) -> None:
    for name, names in modules.items():
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)


class ImagePredictor:
    """Answers like SAM2ImagePredictor: three masks for one click, one for a box."""

    def __init__(self, model: object) -> None:
        self.model = model

    def set_image(self, rgb: np.ndarray) -> None:
        self.rgb = rgb

    def predict(self, point_coords, point_labels, box, multimask_output):
        masks = [self.rgb[..., 0] > 100, np.ones(RED.shape)] if multimask_output else [self.rgb[..., 0] > 100]
        return np.array(masks, float), np.linspace(0.8, 0.1, len(masks)), None


class VideoPredictor:
    """Answers like SAM2VideoPredictor, from JPEG frames in a folder."""

    def init_state(self, video_path):
        from pathlib import Path

        return sorted(Path(video_path).iterdir())

    def add_new_points_or_box(self, inference_state, frame_idx, obj_id, box, points=None, labels=None):
        assert points is not None

    def propagate_in_video(self, state, start_frame_idx, reverse):
        for k in range(start_frame_idx, -1, -1) if reverse else range(start_frame_idx, len(state)):
            yield k, [1], np.where(RED, 5.0, -5.0)[None, None]


def test_sam2_is_asked_as_its_package_wants(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    build = {"build_sam2": lambda *_, device: device, "build_sam2_video_predictor": lambda *_, device: VideoPredictor()}
    fake(monkeypatch, sam2={}, sam2__build_sam=build, sam2__sam2_image_predictor={"SAM2ImagePredictor": ImagePredictor})
    weights = tmp_path / "weights.pt"
    weights.write_bytes(b"")
    segmenter = Sam2(weights)
    (mask, score), _ = segmenter.predict(RGB, points=np.array([[6.0, 5.0]]))
    np.testing.assert_array_equal(mask, RED)
    assert score == 0.8
    assert len(segmenter.predict(RGB, box=np.array([4, 3, 12, 9]))) == 1
    masks = segmenter.propagate([RGB] * 3, 1, points=np.array([[6.0, 5.0]]))
    assert all((mask == RED).all() for mask in masks)


def test_sam3_takes_words_and_points(tmp_path, monkeypatch):
    pytest.importorskip("PIL")

    def predict_inst(state, point_coords, point_labels, box, multimask_output):
        return np.array([RED], float), np.array([0.7]), None

    class Processor:
        def __init__(self, model):
            self.model = model

        def set_image(self, image):
            return {"size": image.size}

        def set_text_prompt(self, state, prompt):
            return {"masks": RED[None, None], "scores": [0.6]}

    built = SimpleNamespace(predict_inst=predict_inst)
    fake(
        monkeypatch, sam3={}, sam3__model={}, sam3__model__sam3_image_processor={"Sam3Processor": Processor},
        sam3__model_builder={"build_sam3_image_model": lambda **_: built},
    )  # fmt: skip
    weights = tmp_path / "weights.pt"
    weights.write_bytes(b"")
    segmenter = Sam3(weights)
    assert segmenter.predict(RGB, words="red thing")[0][1] == 0.6
    assert segmenter.predict(RGB, points=np.array([[6.0, 5.0]]))[0][1] == 0.7
    with pytest.raises(ConfigError, match="follows nothing through a video"):
        segmenter.propagate([RGB], 0, words="red thing")


def test_grounding_dino_makes_boxes_and_another_model_makes_masks(tmp_path, monkeypatch):
    class Inputs(dict[str, Any]):
        def to(self, device):
            return self

    class Processor:
        @classmethod
        def from_pretrained(cls, pretrained_model_name_or_path, local_files_only):
            return cls()

        def __call__(self, images, text, return_tensors):
            assert text == "red thing."
            return Inputs()

        def post_process_grounded_object_detection(self, outputs, threshold, text_threshold, target_sizes):
            return [{"boxes": np.array([[4.0, 3, 12, 9]]), "scores": np.array([0.5])}]

    class Model:
        @classmethod
        def from_pretrained(cls, pretrained_model_name_or_path, local_files_only, use_safetensors):
            return cls()

        def to(self, device):
            return self

        def eval(self):
            return lambda **_: None

    fake(monkeypatch, transformers={"AutoProcessor": Processor, "AutoModelForZeroShotObjectDetection": Model})
    fake(monkeypatch, torch={"no_grad": nullcontext})

    class Boxes(Segmenter):
        def _predict(self, rgb, ask):
            return [(RED, 0.8)]

    segmenter = GroundingDino(tmp_path, then=Boxes())
    assert segmenter.predict(RGB, words="Red thing")[0][1] == pytest.approx(0.4)
    assert segmenter.predict(RGB, points=np.array([[6.0, 5.0]]))[0][1] == 0.8


def test_a_model_of_another_size_is_refused():
    class Small(Segmenter):
        def _predict(self, rgb, ask):
            return [(np.ones((2, 2)), 1.0)]

    with pytest.raises(RecordingError, match=r"shape \(2, 2\)"):
        Small().predict(RGB, points=np.array([[6.0, 5.0]]))


def test_a_png_comes_back_as_it_went():
    np.testing.assert_array_equal(png_mask(png_bytes(255 * RED.astype(np.uint8)), (12, 16), "here"), RED)
    assert png_bytes(RGB)[:4] == b"\x89PNG"
    assert len(png_bytes(np.zeros((3, 4), np.uint16))) > 50
    with pytest.raises(RecordingError, match="cannot be a PNG"):
        png_bytes(np.zeros((3, 4)))
    with pytest.raises(RecordingError, match="cannot be decoded"):
        png_mask(png_bytes(np.zeros((12, 16), np.uint8))[:45], (12, 16), "here")
