"""Pictures of a batch changed as a randomisation says: light, colours, blur, noise, lost parts; on CPU and GPU alike.

augment = Augment(randomization, seed=0)
seen = augment(images, first=step * len(images))        # (N, H, W, 3), uint8 or float32 in 0 … 1, on any device
depth_m = augment.depth(depth_m, first=step * len(images))

Image number k is changed in the same way in whatever batch and on whatever device it is. The reference is numpy's.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

from twinproof.nouns.errors import MissingExtra
from twinproof.nouns.randomization import Randomization
from twinproof.randomize.adjust import BELL, BLOCK, GREY, MIX, ODD, Adjustments, adjustments
from twinproof.randomize.augment_reference import check, check_depth

SIGNED = 1 << 63
AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 27}  # numbers that are worked on at once: what a cache or a card holds


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("augmentation of batches needs torch: pip install 'twinproof[learn]'.") from None
    return torch


class Augment:
    """A randomisation's picture and depth ranges as a function on batches."""

    def __init__(self, randomization: Randomization, seed: int = 0) -> None:
        self.randomization, self.seed = randomization, seed

    def __call__(self, images: Any, first: int = 0) -> Any:
        """Pictures (N, H, W, 3) of numbers `first` and on, changed; the same kind and device come back."""
        return augmented(images, adjustments(self.randomization, len(images), self.seed, first))

    def depth(self, depth_m: Any, first: int = 0) -> Any:
        """Depths (N, H, W) in m, of the same numbers, with noise and holes."""
        return augmented_depth(depth_m, adjustments(self.randomization, len(depth_m), self.seed, first))


def augmented(images: Any, how: Adjustments) -> Any:
    """Pictures (N, H, W, 3), uint8 or float32 in 0 … 1, changed; the same kind comes back."""
    torch = _torch()
    check(tuple(images.shape), str(images.dtype), how)
    some = max(1, AT_ONCE.get(images.device.type, AT_ONCE["cuda"]) // max(images[:1].numel(), 1))
    if len(images) > some:
        parts = [(begin, min(begin + some, len(images))) for begin in range(0, len(images), some)]
        return torch.cat([augmented(images[begin:end], how.part(begin, end)) for begin, end in parts])
    if not len(images):
        return images
    device, whole = images.device, images.dtype == torch.uint8
    colour = images.float() / 255 if whole else images

    def on(array: Any) -> Any:
        return torch.as_tensor(array, dtype=torch.float32, device=device)

    count, height, width, _ = colour.shape
    colour = torch.einsum("nhwc,ndc->nhwd", colour, on(how.matrix))
    grey = (colour @ on(GREY)).double().mean(dim=(1, 2)).float()[:, None, None, None]
    colour = grey + on(how.of("image.contrast"))[:, None, None, None] * (colour - grey)
    kernel = on(how.kernel)
    if kernel.shape[1] > 1:
        colour = _blurred(_blurred(colour, kernel, 1), kernel, 2)
    if how.of("image.noise").any():
        noise = bell(how.key("noise"), how.numbers, height * width * 3, device).reshape(count, height, width, 3)
        colour = colour + on(how.of("image.noise"))[:, None, None, None] * noise
    if how.of("image.dropout").any():
        across, down = -(-width // BLOCK), -(-height // BLOCK)
        share = uniform(how.key("dropout"), how.numbers, across * down, device)
        lost = share < torch.as_tensor(how.of("image.dropout"), device=device)[:, None]
        lost = lost.reshape(count, down, across).repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)
        colour = colour.masked_fill(lost[:, :height, :width, None], 0.0)
    colour = colour.clamp(0, 1)
    return torch.round(colour * 255).to(torch.uint8) if whole else colour


def _blurred(colour: Any, kernel: Any, axis: int) -> Any:
    """A sum of shifted pictures, edges repeated."""
    torch = _torch()
    reach, size = kernel.shape[1] // 2, colour.shape[axis]
    places = torch.arange(-reach, size + reach, device=colour.device).clamp(0, size - 1)
    wide, found = colour.index_select(axis, places), torch.zeros_like(colour)
    for k in range(kernel.shape[1]):
        found += kernel[:, k, None, None, None] * wide.narrow(axis, k, size)
    return found


def augmented_depth(depth_m: Any, how: Adjustments) -> Any:
    """Depths with noise that grows with their square, and holes (0); what had no reading (0 or inf) has none."""
    torch = _torch()
    check_depth(tuple(depth_m.shape), str(depth_m.dtype), how)
    _, height, width = depth_m.shape
    device = depth_m.device
    seen = torch.isfinite(depth_m) & (depth_m > 0)
    noise = bell(how.key("depth noise"), how.numbers, height * width, device).reshape(depth_m.shape)
    lost = uniform(how.key("depth dropout"), how.numbers, height * width, device).reshape(depth_m.shape)
    sd = torch.as_tensor(how.of("depth.noise"), dtype=torch.float32, device=device)[:, None, None]
    clean = torch.where(seen, depth_m, torch.zeros_like(depth_m))
    noisy = (clean + sd * clean * clean * noise).clamp(min=0)
    hole = lost < torch.as_tensor(how.of("depth.dropout"), device=device)[:, None, None]
    return torch.where(seen, noisy.masked_fill(hole, 0.0), depth_m)


def counted(key: int, numbers: Any, width: int, device: Any) -> Any:
    """64 random bits for every image and place (N, width), the bits that numpy's `counted` gives."""
    torch = _torch()
    rows = torch.as_tensor(numbers, dtype=torch.int64, device=device) * _signed(ODD[1]) + _signed(key)
    places = torch.arange(width, dtype=torch.int64, device=device) * _signed(ODD[2])
    return _mix(_mix(rows)[:, None] + places)


def uniform(key: int, numbers: Any, width: int, device: Any) -> Any:
    """Numbers in (0, 1) for every image and place (N, width), float64."""
    return (_right(counted(key, numbers, width, device), 11).double() + 0.5) * 2.0**-53


def bell(key: int, numbers: Any, width: int, device: Any) -> Any:
    """Numbers of mean 0 and sd 1 in a bell, sums of four signed 16-bit words (N, width), float32."""
    words = counted(key, numbers, width, device).view(_torch().int16).reshape(len(numbers), width, 4)
    total = words[..., 0].float()
    for k in (1, 2, 3):
        total += words[..., k]
    return (total + 2) * float(1 / BELL)


def _signed(value: int) -> int:
    """The same 64 bits as a signed number."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= SIGNED else value


def _right(bits: Any, by: int) -> Any:
    """A shift that does not drag the sign along."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _mix(bits: Any) -> Any:
    """Splitmix's finaliser, in place."""
    bits ^= _right(bits, 30)
    bits *= _signed(MIX[0])
    bits ^= _right(bits, 27)
    bits *= _signed(MIX[1])
    bits ^= _right(bits, 31)
    return bits
