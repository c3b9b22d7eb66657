"""A grammar of projection programs: region x anchor x frame x warp x scale x offset x bound, and three constants.

A sentence is written as one choice for each part (:class:`Sentence`) and read as an ordinary program. With the nodes s

    v = frame(s - anchor),  w = warp(v),  result = bound(stretch * w / scale ** exponent + offset).

Statistics run over a region: the candidates and the last node, or all nodes. All maps of TTPL (arXiv 2506.02392,
section 4 and appendix B) and INViT's, from which its search starts, are sentences: :data:`PUBLISHED`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

PARTS: dict[str, tuple[str, ...]] = {
    "region": ("neighbours", "all"),
    "anchor": ("min", "max", "mid", "mean", "median", "last", "first"),
    "frame": ("none", "mirror", "mirror-x", "mirror-y", "swap", "principal"),
    "warp": ("none", "tanh", "expm1", "log1p", "power"),
    "scale": ("one", "side", "sides", "radius", "radius-floor", "rms", "warped-side", "warped-radius"),
    "offset": ("zero", "half", "anchor"),
    "bound": ("none", "clip", "ray", "soft"),
}
# Ranges of the constants; all are 1 in the published maps but for one exponent of 1/2.
CONSTANTS: dict[str, tuple[float, float]] = {"sharpness": (0.25, 4.0), "exponent": (0.25, 1.5), "stretch": (0.25, 4.0)}
# The offset that puts an anchor where it belongs: corners to corners, centres to the centre, a depot to its place.
_PLACE = {"min": "zero", "max": "zero", "first": "anchor"}
# What stands for the absence of a part; a region and an anchor are always there.
NEUTRAL = {"frame": "none", "warp": "none", "scale": "one", "bound": "none"}


@dataclass(frozen=True)
class Sentence:
    """One choice of each part, and the constants."""

    region: str = "neighbours"
    anchor: str = "min"
    frame: str = "none"
    warp: str = "none"
    scale: str = "side"
    offset: str = "zero"
    bound: str = "clip"
    sharpness: float = 1.0
    exponent: float = 1.0
    stretch: float = 1.0

    @classmethod
    def from_genes(cls, genes: Mapping[str, Any]) -> Sentence:
        """Return the sentence of a record.

        Raises
        ------
        ValueError
            If a choice is not in the grammar.
        """
        sentence = cls(**genes)
        for part, choices in PARTS.items():
            if getattr(sentence, part) not in choices:
                raise ValueError(f"the grammar has no {part} {getattr(sentence, part)!r}")
        return sentence

    @property
    def genes(self) -> dict[str, Any]:
        """All fields, in JSON's types."""
        return asdict(self)

    @property
    def idea(self) -> str:
        """The sentence in words."""
        words = [f"{part} {getattr(self, part)}" for part in PARTS]
        words += [f"{name} {getattr(self, name):g}" for name in CONSTANTS if getattr(self, name) != 1.0]
        return ", ".join(words)


PUBLISHED: dict[str, Sentence] = {
    "none": Sentence(region="all", anchor="first", scale="one", offset="anchor", bound="none"),
    "seed": Sentence(),
    "tsp1k": Sentence(anchor="max", frame="mirror"),
    "tsp5k": Sentence(warp="tanh"),
    "tsp10k": Sentence(anchor="mid", offset="half"),
    "cvrp1k": Sentence(region="all", anchor="first", scale="radius-floor", offset="anchor", bound="none"),
    "cvrp5k": Sentence(region="all", anchor="first", scale="radius", exponent=0.5, offset="anchor", bound="none"),
    "cvrp10k": Sentence("all", "first", "none", "expm1", "warped-radius", "anchor", "none"),
}


# The operators of the search, on sentences; see nco.projection.evolution for what they mean.


def draw(rng: np.random.Generator) -> Sentence:
    """i1: draw every part and, with even chances, every constant; the offset suits the anchor with even chances."""
    parts = {part: str(rng.choice(choices)) for part, choices in PARTS.items()}
    if rng.random() < 0.5:
        parts["offset"] = _PLACE.get(parts["anchor"], "half")
    constants = {name: _draw_constant(name, rng) for name in CONSTANTS if rng.random() < 0.5}
    return Sentence(**parts, **constants)  # type: ignore[arg-type]


def differ(parents: Iterable[Sentence], rng: np.random.Generator) -> Sentence:
    """e1: draw a sentence that shares no part with any parent, where the grammar leaves another choice."""
    parents = list(parents)
    parts = {}
    for part, choices in PARTS.items():
        taken = {getattr(parent, part) for parent in parents}
        parts[part] = str(rng.choice([choice for choice in choices if choice not in taken] or choices))
    return replace(draw(rng), **parts)  # type: ignore[arg-type]


def share(parents: Iterable[Sentence], rng: np.random.Generator) -> Sentence:
    """e2: keep what the parents have in common, and draw the rest from what either has or anything else."""
    first, *others = parents
    changed: dict[str, Any] = {}
    for part, choices in PARTS.items():
        had = [getattr(parent, part) for parent in (first, *others)]
        if len(set(had)) > 1:
            changed[part] = str(rng.choice(had if rng.random() < 0.5 else choices))
    for name in CONSTANTS:
        changed[name] = getattr(first if rng.random() < 0.5 else others[-1] if others else first, name)
    if not any(part in changed for part in PARTS):
        return vary(first, rng)
    return replace(first, **changed)


def vary(parent: Sentence, rng: np.random.Generator) -> Sentence:
    """m1: draw another choice of one part; with another anchor comes the offset that suits it."""
    part = str(rng.choice(list(PARTS)))
    choice = str(rng.choice([choice for choice in PARTS[part] if choice != getattr(parent, part)]))
    changed = {part: choice} if part != "anchor" else {part: choice, "offset": _PLACE.get(choice, "half")}
    return replace(parent, **changed)  # type: ignore[arg-type]


def tune(parent: Sentence, rng: np.random.Generator) -> Sentence:
    """m2: change the constants that the sentence uses by a log-normal factor."""
    used = ["stretch"]
    used += ["sharpness"] if parent.warp != "none" else []
    used += ["exponent"] if parent.scale != "one" else []
    changed = {}
    for name in used:
        low, high = CONSTANTS[name]
        changed[name] = _rounded(float(np.clip(getattr(parent, name) * rng.lognormal(0.0, 0.25), low, high)))
    return replace(parent, **changed)  # type: ignore[arg-type]


def simplify(parent: Sentence, rng: np.random.Generator) -> Sentence:
    """m3: take one part or all constants away."""
    removable = [part for part, neutral in NEUTRAL.items() if getattr(parent, part) != neutral]
    if any(getattr(parent, name) != 1.0 for name in CONSTANTS):
        removable.append("constants")
    if not removable:
        return vary(parent, rng)
    part = str(rng.choice(removable))
    if part == "constants":
        return replace(parent, **dict.fromkeys(CONSTANTS, 1.0))  # type: ignore[arg-type]
    return replace(parent, **{part: NEUTRAL[part]})  # type: ignore[arg-type]


def _draw_constant(name: str, rng: np.random.Generator) -> float:
    low, high = np.log(CONSTANTS[name])
    return _rounded(float(np.exp(rng.uniform(low, high))))


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


# From a sentence to its program.


def source(sentence: Sentence) -> str:
    """Return the program of a sentence."""
    lines = [
        *_frame_lines(sentence),
        *_warp_lines(sentence),
        *_scale_lines(sentence),
        *_offset_lines(sentence),
        *_bound_lines(sentence),
        "return placed",
    ]
    body = "\n".join(f"    {line}" for line in lines)
    return f"def project(points):\n{body}\n"


def _slots(sentence: Sentence) -> str:
    return "" if sentence.region == "all" else "[:, 1:]"


def _frame_lines(sentence: Sentence) -> list[str]:
    over = "(dim=1, keepdim=True)"
    anchors = {
        "min": f"anchor = region.amin{over}",
        "max": f"anchor = region.amax{over}",
        "mid": f"anchor = (region.amin{over} + region.amax{over}) / 2",
        "mean": f"anchor = region.mean{over}",
        "median": f"anchor = region.median{over}.values",
        "last": "anchor = points[:, -1:]",
        "first": "anchor = points[:, :1]",
    }
    frames = {
        "none": [],
        "mirror": ["moved = -moved"],
        "mirror-x": ["moved = torch.stack([-moved[..., 0], moved[..., 1]], dim=-1)"],
        "mirror-y": ["moved = torch.stack([moved[..., 0], -moved[..., 1]], dim=-1)"],
        "swap": ["moved = moved.flip(-1)"],
        "principal": [
            f"x, y = (region - region.mean{over}).unbind(-1)",
            "angle = 0.5 * torch.atan2(2 * (x * y).sum(dim=1), (x * x - y * y).sum(dim=1))",
            "cosine, sine = angle.cos().unsqueeze(1), angle.sin().unsqueeze(1)",
            "x, y = moved.unbind(-1)",
            "moved = torch.stack([cosine * x + sine * y, cosine * y - sine * x], dim=-1)",
        ],
    }
    region = f"region = points{_slots(sentence)}"
    return [region, anchors[sentence.anchor], "moved = points - anchor", *frames[sentence.frame]]


def _warp_lines(sentence: Sentence) -> list[str]:
    sharp = "" if sentence.sharpness == 1.0 else f"{sentence.sharpness!r} * "
    radius = "radius = moved.norm(dim=-1, keepdim=True)"
    bent = "bent = reach * moved / (radius + 1e-6)"
    return {
        "none": ["bent = moved"],
        "tanh": [f"bent = torch.tanh({sharp}moved)"],
        "expm1": [radius, f"reach = torch.expm1({sharp}radius)", bent],
        "log1p": [radius, f"reach = torch.log1p({sharp}radius)", bent],
        "power": [radius, f"reach = radius ** {sentence.sharpness!r}", bent],
    }[sentence.warp]


def _scale_lines(sentence: Sentence) -> list[str]:
    slots = _slots(sentence)
    radius = f"moved{slots}.norm(dim=-1, keepdim=True)"
    is_radial = sentence.warp in ("expm1", "log1p", "power")
    reach = f"reach{slots}" if is_radial else f"bent{slots}.norm(dim=-1, keepdim=True)"

    def sides(name: str) -> str:
        return f"({name}{slots}.amax(dim=1, keepdim=True) - {name}{slots}.amin(dim=1, keepdim=True))"

    scale = {
        "one": "",
        "side": f"{sides('moved')}.amax(dim=-1, keepdim=True)",
        "sides": sides("moved"),
        "radius": f"{radius}.amax(dim=1, keepdim=True)",
        "radius-floor": f"{radius}.amax(dim=1, keepdim=True).clamp(min=1.0)",
        "rms": f"{radius}.square().mean(dim=1, keepdim=True).sqrt()",
        "warped-side": f"{sides('bent')}.amax(dim=-1, keepdim=True)",
        "warped-radius": f"{reach}.amax(dim=1, keepdim=True)",
    }[sentence.scale]
    stretch = "" if sentence.stretch == 1.0 else f"{sentence.stretch!r} * "
    if not scale:
        return [f"placed = {stretch}bent"]
    power = "" if sentence.exponent == 1.0 else f" ** {sentence.exponent!r}"
    positive = "scale = torch.where(scale > 0, scale, torch.ones_like(scale))"
    return [f"scale = {scale}", positive, f"placed = {stretch}bent / scale{power}"]


def _offset_lines(sentence: Sentence) -> list[str]:
    return {"zero": [], "half": ["placed = placed + 0.5"], "anchor": ["placed = placed + anchor"]}[sentence.offset]


def _bound_lines(sentence: Sentence) -> list[str]:
    outside = "beyond = (2 * (placed - 0.5).abs().amax(dim=-1, keepdim=True)).clamp(min=1.0)"
    return {
        "none": [],
        "clip": ["placed = placed.clamp(0.0, 1.0)"],
        # Along the ray from the centre: to the edge of the square, or to less than twice its size.
        "ray": [outside, "placed = 0.5 + (placed - 0.5) / beyond"],
        "soft": [outside, "placed = 0.5 + (placed - 0.5) * (2 - 1 / beyond) / beyond"],
    }[sentence.bound]
