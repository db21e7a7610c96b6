"""Segmentation models that the user supplies, chosen by constructing them: SAM 2, SAM 3, Grounding DINO, any by HTTP.

No weights come with this package, and none are downloaded: each class says what to install and where weights are to be
had. Models are loaded when the first picture is asked for. Files of weights are read by the model's own package, with
torch's weights-only reader or as safetensors; we never unpickle one.

HTTP (for `HttpSegmenter`): POST {url}/predict with JSON
    {"format": "twinproof/segment/1", "png": base64, "points": [[x, y], …], "labels": [1 inside or 0 outside, …],
     "box": [left, top, right, bottom] or null, "words": "…"}
answers {"masks": [{"png": base64 of a grey PNG, white inside, "score": 0 … 1}, …]}.
POST {url}/propagate with the same and
    "frames": [base64, …] in place of "png", and "at": index of the frame that the prompt is about
answers {"masks": [base64, …]}, one for each frame.
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from twinproof.nouns.errors import ConfigError, MissingExtra, RecordingError
from twinproof.nouns.hashing import Json
from twinproof.nouns.pictures import png_bytes
from twinproof.reconstruct.ask_http import Server
from twinproof.reconstruct.png import png_mask

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, UInt8

FORMAT = "twinproof/segment/1"
Found = list[tuple["Bool[np.ndarray, 'H W']", float]]
NOWHERE = np.zeros((0, 2))


@dataclass(frozen=True, eq=False)
class Ask:
    """A prompt about one picture: points (x, y) in px with labels 1 (on it) or 0 (not on it), a box, words."""

    points: Float[np.ndarray, "P 2"]
    labels: np.ndarray
    box: Float[np.ndarray, "4"] | None
    words: str


class Segmenter(ABC):
    """Masks of what a prompt means. Subclasses are final; they answer `_predict`, and `_propagate` if they can."""

    knows_words = False

    def predict(
        self,
        rgb: UInt8[np.ndarray, "H W 3"],
        points: Float[np.ndarray, "P 2"] = NOWHERE,
        labels: np.ndarray | None = None,
        box: Float[np.ndarray, "4"] | None = None,
        words: str = "",
    ) -> Found:
        """Masks with scores, the best first; none where nothing fits."""
        picture = _picture(rgb)
        found = self._predict(picture, self._asked(picture, points, labels, box, words))
        return sorted((_checked(mask, score, picture, self) for mask, score in found), key=lambda one: -one[1])

    def propagate(
        self,
        frames: Sequence[UInt8[np.ndarray, "H W 3"]],
        at: int,
        points: Float[np.ndarray, "P 2"] = NOWHERE,
        labels: np.ndarray | None = None,
        box: Float[np.ndarray, "4"] | None = None,
        words: str = "",
    ) -> list[Bool[np.ndarray, "H W"]]:
        """One mask for each frame of a video, from a prompt about frame `at`."""
        pictures = [_picture(frame) for frame in frames]
        if not 0 <= at < len(pictures) or len({picture.shape for picture in pictures}) > 1:
            raise ConfigError(
                f"frame {at} of {len(pictures)} frames of {len({p.shape for p in pictures})} sizes. Name a frame of "
                "the video, and give frames of one size."
            )
        masks = self._propagate(pictures, at, self._asked(pictures[at], points, labels, box, words))
        if len(masks) != len(pictures):
            raise RecordingError(
                f"{self!r} gave {len(masks)} masks for {len(pictures)} frames. One for each is needed."
            )
        return [_checked(mask, 1.0, pictures[0], self)[0] for mask in masks]

    @abstractmethod
    def _predict(self, rgb: np.ndarray, ask: Ask) -> Found:
        """As `predict`, with inputs that were checked."""

    def _propagate(self, frames: list[np.ndarray], at: int, ask: Ask) -> list[np.ndarray]:
        raise ConfigError(
            f"{type(self).__name__} segments single pictures and follows nothing through a video. Use Sam2, or ask for "
            "every frame."
        )

    def _asked(
        self, rgb: np.ndarray, points: np.ndarray, labels: np.ndarray | None, box: np.ndarray | None, words: str
    ) -> Ask:
        where = np.asarray(points, float).reshape(-1, 2)
        sides = np.ones(len(where), np.int32) if labels is None else np.asarray(labels).astype(np.int32).reshape(-1)
        frame = None if box is None else np.asarray(box, float).reshape(-1)
        if not len(where) and frame is None and not words.strip():
            raise ConfigError("the prompt is empty. Give a point, a box or words.")
        if len(sides) != len(where) or not np.isin(sides, (0, 1)).all():
            raise ConfigError(
                f"{len(where)} points and the labels {sides.tolist()}. Give 1 (on it) or 0 for each point."
            )
        height, width = rgb.shape[:2]
        if not ((where > -0.5) & (where < (width - 0.5, height - 0.5))).all():
            raise ConfigError(f"the points {where.tolist()} are not all inside the picture of {width} × {height} px.")
        if frame is not None and (
            frame.shape != (4,) or not np.isfinite(frame).all() or (frame[2:] <= frame[:2]).any()
        ):
            raise ConfigError(f"the box {frame.tolist()} is none. Give left, top, right and bottom in px.")
        if words.strip() and not self.knows_words and not len(where) and frame is None:
            raise ConfigError(
                f"{type(self).__name__} does not understand words. Use Sam3, or GroundingDino(…, then=…) before it, or "
                "give a point or a box."
            )
        return Ask(where, sides, frame, words.strip())


@dataclass(frozen=True)
class Sam2(Segmenter):
    """SAM 2 (Meta, Apache-2.0): points and boxes, and videos. `config` as its package names it."""

    checkpoint: Path | str
    config: str = "configs/sam2.1/sam2.1_hiera_l.yaml"
    device: str = "cpu"

    def _predict(self, rgb: np.ndarray, ask: Ask) -> Found:
        predictor = self._image
        predictor.set_image(rgb)
        masks, scores, _ = predictor.predict(
            point_coords=ask.points if len(ask.points) else None,
            point_labels=ask.labels if len(ask.points) else None,
            box=ask.box,
            multimask_output=len(ask.points) == 1 and ask.box is None,  # one click is ambiguous: part or whole
        )
        return [(_numpy(mask) > 0, float(score)) for mask, score in zip(masks, scores, strict=True)]

    def _propagate(self, frames: list[np.ndarray], at: int, ask: Ask) -> list[np.ndarray]:
        from PIL import Image  # what SAM 2 reads its videos with

        predictor = self._video
        found = dict[int, np.ndarray]()
        with TemporaryDirectory() as folder:
            for k, frame in enumerate(frames):
                Image.fromarray(frame).save(Path(folder) / f"{k:05d}.jpg", quality=95)
            state = predictor.init_state(video_path=folder)
            prompt = {"points": ask.points, "labels": ask.labels} if len(ask.points) else {}
            predictor.add_new_points_or_box(inference_state=state, frame_idx=at, obj_id=1, box=ask.box, **prompt)
            for back in (False, True):
                for index, _, logits in predictor.propagate_in_video(state, start_frame_idx=at, reverse=back):
                    found[int(index)] = _numpy(logits)[0].reshape(frames[0].shape[:2]) > 0
        return [found.get(k, np.zeros(frames[0].shape[:2], bool)) for k in range(len(frames))]

    @cached_property
    def _image(self) -> Any:
        self._check()
        package = import_module("sam2.sam2_image_predictor")
        build = import_module("sam2.build_sam").build_sam2
        return package.SAM2ImagePredictor(build(self.config, str(self.checkpoint), device=self.device))

    @cached_property
    def _video(self) -> Any:
        self._check()
        build = import_module("sam2.build_sam").build_sam2_video_predictor
        return build(self.config, str(self.checkpoint), device=self.device)

    def _check(self) -> None:
        _need(
            "sam2", self.checkpoint, "SAM 2",
            "`git clone https://github.com/facebookresearch/sam2` and `pip install -e sam2`",
            "its checkpoints/download_ckpts.sh",
        )  # fmt: skip


@dataclass(frozen=True)
class Sam3(Segmenter):
    """SAM 3 (Meta, SAM License): words, points and boxes. Its weights are gated: ask for access on the model hub."""

    checkpoint: Path | str
    device: str = "cuda"
    knows_words = True

    def _predict(self, rgb: np.ndarray, ask: Ask) -> Found:
        from PIL import Image  # what SAM 3 takes

        model, processor = self._model
        state = processor.set_image(Image.fromarray(rgb))
        if len(ask.points) or ask.box is not None:
            masks, scores, _ = model.predict_inst(
                state,
                point_coords=ask.points if len(ask.points) else None,
                point_labels=ask.labels if len(ask.points) else None,
                box=ask.box,
                multimask_output=len(ask.points) == 1 and ask.box is None,
            )
        else:
            answer = processor.set_text_prompt(state=state, prompt=ask.words)
            masks, scores = answer["masks"], answer["scores"]
        shape = rgb.shape[:2]
        return [(_numpy(mask).reshape(shape) > 0, float(score)) for mask, score in zip(masks, scores, strict=True)]

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        _need(
            "sam3", self.checkpoint, "SAM 3", "`pip install sam3` (Python 3.12, torch 2.7 and CUDA 12.6 or newer)",
            "https://huggingface.co/facebook/sam3, after asking for access there",
        )  # fmt: skip
        model = import_module("sam3.model_builder").build_sam3_image_model(
            checkpoint_path=str(self.checkpoint),
            load_from_HF=False,
            device=self.device,
            enable_inst_interactivity=True,
        )
        return model, import_module("sam3.model.sam3_image_processor").Sam3Processor(model)


@dataclass(frozen=True)
class GroundingDino(Segmenter):
    """Grounding DINO (Apache-2.0): words become boxes, and `then` makes masks of them. `folder` is a hub snapshot."""

    folder: Path | str
    then: Segmenter
    device: str = "cpu"
    least: float = 0.3  # score of a box
    knows_words = True

    def _predict(self, rgb: np.ndarray, ask: Ask) -> Found:
        if len(ask.points) or ask.box is not None:
            return self.then.predict(rgb, ask.points, ask.labels, ask.box)
        found: Found = []
        for box, score in self.boxes(rgb, ask.words):
            found += [(mask, score * inner) for mask, inner in self.then.predict(rgb, box=box)[:1]]
        return found

    def boxes(self, rgb: np.ndarray, words: str) -> list[tuple[np.ndarray, float]]:
        """Boxes (left, top, right, bottom) that the words mean, with scores."""
        (processor, model), torch = self._model, import_module("torch")
        # It was trained on lower-case phrases that end with a full stop.
        inputs = processor(images=rgb, text=words.lower().rstrip(".") + ".", return_tensors="pt").to(self.device)
        with torch.no_grad():
            outputs = model(**inputs)
        answer = processor.post_process_grounded_object_detection(
            outputs, threshold=self.least, text_threshold=self.least, target_sizes=[rgb.shape[:2]]
        )[0]
        return [
            (_numpy(box).astype(float), float(score))
            for box, score in zip(answer["boxes"], answer["scores"], strict=True)
        ]

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        _need(
            "transformers", self.folder, "Grounding DINO", "`pip install transformers`",
            "https://huggingface.co/IDEA-Research/grounding-dino-base (the whole folder)",
        )  # fmt: skip
        hub = import_module("transformers")
        where = {"pretrained_model_name_or_path": str(self.folder), "local_files_only": True}
        model = hub.AutoModelForZeroShotObjectDetection.from_pretrained(**where, use_safetensors=True)
        return hub.AutoProcessor.from_pretrained(**where), model.to(self.device).eval()


@dataclass(frozen=True)
class HttpSegmenter(Segmenter):
    """Any model behind the small interface at the head of this file; on this machine unless `elsewhere`."""

    url: str
    elsewhere: bool = False
    timeout_s: float = 120.0
    knows_words = True
    _server: Server = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_server", Server(self.url, self.elsewhere, self.timeout_s))

    def _predict(self, rgb: np.ndarray, ask: Ask) -> Found:
        answer = self._server.ask("predict", {**_question(ask), "png": _text(png_bytes(rgb))})
        masks = answer.get("masks")
        if not isinstance(masks, list) or not all(isinstance(one, dict) for one in masks):
            raise RecordingError(f"{self.url}: the answer lacks a list of masks, each with png and score.")
        return [(self._mask(one.get("png"), rgb), _score(one.get("score"), self.url)) for one in masks]

    def _propagate(self, frames: list[np.ndarray], at: int, ask: Ask) -> list[np.ndarray]:
        pictures: list[Json] = [_text(png_bytes(frame)) for frame in frames]
        answer = self._server.ask("propagate", {**_question(ask), "frames": pictures, "at": at})
        masks = answer.get("masks")
        if not isinstance(masks, list):
            raise RecordingError(f"{self.url}: the answer lacks a list of masks, one for each frame.")
        return [self._mask(one, frames[0]) for one in masks]

    def _mask(self, text: object, rgb: np.ndarray) -> np.ndarray:
        try:
            data = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
        except (binascii.Error, ValueError):
            data = b""
        return png_mask(data, (rgb.shape[0], rgb.shape[1]), self.url)


def _question(ask: Ask) -> dict[str, Json]:
    return {
        "format": FORMAT,
        "points": ask.points.tolist(),
        "labels": ask.labels.tolist(),
        "box": None if ask.box is None else ask.box.tolist(),
        "words": ask.words,
    }


def _score(value: object, where: str) -> float:
    if not isinstance(value, (int, float)) or not np.isfinite(value):
        raise RecordingError(f"{where}: a mask's score is {value!r}. Needed is a number between 0 and 1.")
    return float(value)


def _checked(mask: np.ndarray, score: float, rgb: np.ndarray, who: Segmenter) -> tuple[np.ndarray, float]:
    array = np.asarray(mask)
    if array.shape != rgb.shape[:2]:
        raise RecordingError(
            f"{who!r} gave a mask of the shape {array.shape} for a picture of {rgb.shape[:2]}. Check its version."
        )
    return array.astype(bool), float(score)


def _picture(rgb: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(rgb)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise RecordingError(f"a picture of {array.dtype} with the shape {array.shape}; needed is uint8 (H, W, 3).")
    return array


def _need(package: str, weights: Path | str, name: str, install: str, where: str) -> None:
    """Both the package and the file or folder of weights are there, or an error says how to get them."""
    if not Path(weights).exists():
        raise ConfigError(f"{name}: there are no weights at {weights}. Get them from {where}, and name the file here.")
    try:
        import_module(package)
    except ImportError as problem:
        raise MissingExtra(f"{name} needs the package {package} ({problem}). Install it: {install}.") from None


def _numpy(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().float().cpu().numpy() if hasattr(tensor, "detach") else tensor)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
