"""The network of LEHD (Luo et al., NeurIPS 2023), and options that help small networks.

Decoder tokens stand for the node where the path must end, for every candidate and for the last node of the path; joint
self-attention mixes them and a linear head scores the candidates. Nodes that are visited already are seen by nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from nco.nn.attention import AttentionLayer
from nco.nn.plane import attention_biases, soften, soften_places
from nco.search.candidates import Candidates

WINDOW_SCALINGS = ("none", "isotropic", "centred")


class LehdNetwork(nn.Module):
    """Scores the candidates for the next node: a :data:`nco.search.candidates.CandidateScorer`.

    The defaults are the paper's network, less a linear map of the published weights that nothing uses: 1,415,169
    parameters for the TSP and 1,415,682 for the CVRP.

    Parameters
    ----------
    problem : {"tsp", "cvrp"}
    dim, heads, head_dim, hidden : int
        Token width, attention heads and their width, feed-forward width.
    encoder_layers, decoder_layers : int
        The encoder sees nodes (0: nodes are only embedded), the decoder sees the tokens of a decision.
    window_scaling : {"none", "isotropic", "centred"}
        How the coordinates of a decision are scaled before they are encoded, see :func:`scale_candidates`. May be set
        later, for instance to ``none`` where coordinates come projected.
    softened : bool
        Beyond the paper: nodes are seen from the last node, those beyond the window's unit are pulled in along their
        bearing, and the lengths of ``geometry`` and ``cost_prior`` beyond it enter as 1 + log(length). So a distant
        destination or depot stays in the range that the network knows, and where a window lies does not matter.
    geometry : bool
        Beyond the paper: each candidate's token also gets lengths. TSP: to the last node, to the destination, and the
        detour over the candidate. CVRP: to the last node, to the depot, what going via the depot costs, the room that
        is left, and whether the candidate fits in it.
    cost_prior : bool
        Beyond the paper: a learned multiple of the length of the move is subtracted from its score.
    distance_bias : bool
        Beyond the paper: each attention head subtracts a learned multiple of the distance between two tokens.
    scaled_residuals : bool
        Beyond the paper: residual branches start scaled by 1 / sqrt(2 * layers).

    Attributes
    ----------
    options : dict
        All of the above but the problem: what builds the same network again.
    """

    def __init__(
        self,
        problem: str,
        dim: int = 128,
        heads: int = 8,
        head_dim: int = 16,
        hidden: int = 512,
        encoder_layers: int = 1,
        decoder_layers: int = 6,
        window_scaling: str = "none",
        softened: bool = False,
        geometry: bool = False,
        cost_prior: bool = False,
        distance_bias: bool = False,
        scaled_residuals: bool = False,
    ):
        super().__init__()
        if problem not in ("tsp", "cvrp"):
            raise ValueError(f"unknown problem {problem!r}")
        if window_scaling not in WINDOW_SCALINGS:
            raise ValueError(f"unknown window scaling {window_scaling!r}; known are {', '.join(WINDOW_SCALINGS)}")
        self.problem = problem
        self.window_scaling = window_scaling
        self.options = {
            "dim": dim,
            "heads": heads,
            "head_dim": head_dim,
            "hidden": hidden,
            "encoder_layers": encoder_layers,
            "decoder_layers": decoder_layers,
            "window_scaling": window_scaling,
            "softened": softened,
            "geometry": geometry,
            "cost_prior": cost_prior,
            "distance_bias": distance_bias,
            "scaled_residuals": scaled_residuals,
        }
        self.softened = softened
        is_cvrp = problem == "cvrp"
        layers = encoder_layers + decoder_layers
        scale = 1 / math.sqrt(2 * layers) if scaled_residuals else 1.0
        self.embed = nn.Linear(2 + is_cvrp, dim)
        self.encoder = nn.ModuleList(AttentionLayer(dim, heads, head_dim, hidden, scale) for _ in range(encoder_layers))
        self.embed_first = nn.Linear(dim + is_cvrp, dim)
        self.embed_last = nn.Linear(dim + is_cvrp, dim)
        self.decoder = nn.ModuleList(AttentionLayer(dim, heads, head_dim, hidden, scale) for _ in range(decoder_layers))
        self.score = nn.Linear(dim, 1 + is_cvrp)
        self.embed_geometry = nn.Linear(3 + 2 * is_cvrp, dim) if geometry else None
        # To go via the depot, the second, is a choice of its own: its length alone would forbid it.
        self.prior = nn.Parameter(torch.tensor([10.0, 1.0][: 1 + is_cvrp])) if cost_prior else None
        # Heads start at distance scales from the whole window to a close neighbourhood.
        self.log_distance_weight = (
            nn.Parameter(torch.linspace(-1.0, 2.0, heads).repeat(layers, 1)) if distance_bias else None
        )

    def encode(self, nodes: Tensor, mask: Tensor | None = None) -> Tensor:
        """Embed nodes and let them attend to one another.

        Parameters
        ----------
        nodes : float [B, N, F]
            Where the network sees them.
        mask : bool [B, N], optional
            False hides a node.

        Returns
        -------
        float [B, N, dim]
        """
        x = self.embed(nodes)
        biases = attention_biases(len(self.encoder), mask, nodes[..., :2], self._distance_weights(self.encoder))
        for layer, bias in zip(self.encoder, biases, strict=True):
            x = layer(x, bias)
        return x

    def decode(self, candidates: Candidates, first: Tensor, nodes: Tensor, last: Tensor) -> Tensor:
        """Score the candidates of encoded nodes.

        Parameters
        ----------
        candidates : Candidates
            Masks, remaining capacities and, for the options beyond the paper, coordinates.
        first, nodes, last : float [R, dim], [R, K, dim], [R, dim]
            Encodings of its nodes.

        Returns
        -------
        float [R, K] or [R, 2K]
            Raw scores, also of moves that are not allowed.
        """
        if candidates.remaining is not None:
            first, last = (torch.cat([end, candidates.remaining[:, None]], dim=-1) for end in (first, last))
        costs = None
        if self.embed_geometry is not None or self.prior is not None:
            lengths, costs = self._lengths(candidates)
            if self.embed_geometry is not None:
                nodes = nodes + self.embed_geometry(lengths)
        x = torch.cat([self.embed_first(first)[:, None], nodes, self.embed_last(last)[:, None]], dim=1)
        tokens, mask = _tokens(candidates)
        places = self._seen(tokens)[..., :2]
        biases = attention_biases(len(self.decoder), mask, places, self._distance_weights(self.decoder))
        for layer, bias in zip(self.decoder, biases, strict=True):
            x = layer(x, bias)
        scores = self.score(x[:, 1:-1])
        if self.prior is not None and costs is not None:
            scores = scores - self.prior * costs
        return scores.transpose(1, 2).flatten(1)

    def forward(self, candidates: Candidates) -> Tensor:
        """Scale and encode the nodes of a decision, and score its moves.

        Returns
        -------
        float [R, K] for a TSP, [R, 2K] for a CVRP
            Minus infinity where there is no candidate, or where the open route has no room for it.
        """
        candidates = scale_candidates(candidates, self.window_scaling)
        nodes, mask = _tokens(candidates)
        encoded = self.encode(self._seen(nodes), mask)
        scores = self.decode(candidates, encoded[:, 0], encoded[:, 1:-1], encoded[:, -1])
        return scores.masked_fill(~allowed_moves(candidates), -torch.inf)

    def _seen(self, nodes: Tensor) -> Tensor:
        """Return a decision's nodes [R, K + 2, F] where the network sees them."""
        if not self.softened:
            return nodes
        origin = torch.cat([nodes[:, -1:, :2], torch.zeros_like(nodes[:, -1:, 2:])], dim=-1)
        return soften_places(nodes - origin)

    def _distance_weights(self, stack: nn.ModuleList) -> Tensor | None:
        if self.log_distance_weight is None:
            return None
        border = len(self.encoder)
        return self.log_distance_weight[:border] if stack is self.encoder else self.log_distance_weight[border:]

    def _lengths(self, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Return each candidate's features [R, K, 3 or 5] and the lengths of its moves [R, K, 1 or 2]."""
        nodes, first, last = candidates.nodes[..., :2], candidates.first[:, None, :2], candidates.last[:, None, :2]
        to_last, to_first = (nodes - last).norm(dim=-1), (nodes - first).norm(dim=-1)
        via_first = (last - first).norm(dim=-1) + to_first
        lengths = [to_last, to_first]
        if candidates.remaining is None or candidates.fits is None:
            lengths.append(to_last + to_first - (last - first).norm(dim=-1))
            moves = [to_last]
        else:
            lengths.append(via_first - to_last)
            moves = [to_last, via_first]
        if self.softened:
            lengths, moves = [soften(length) for length in lengths], [soften(move) for move in moves]
        if candidates.remaining is not None and candidates.fits is not None:
            demand = candidates.nodes[..., 2].clamp(min=1e-4)
            lengths += [torch.log1p(candidates.remaining[:, None] / demand) / 4, candidates.fits.to(nodes.dtype)]
        return torch.stack(lengths, dim=-1), torch.stack(moves, dim=-1)


def _tokens(candidates: Candidates) -> tuple[Tensor, Tensor]:
    """Return the nodes [R, K + 2, F] of a decision in the order of their tokens, and which there are [R, K + 2]."""
    nodes = torch.cat([candidates.first[:, None], candidates.nodes, candidates.last[:, None]], dim=1)
    seen = candidates.mask.new_ones(len(nodes), 1)
    return nodes, torch.cat([seen, candidates.mask, seen], dim=1)


def allowed_moves(candidates: Candidates) -> Tensor:
    """Return which moves are allowed, bool [R, K] or, for a CVRP, [R, 2K]: all candidates, directly if they fit."""
    if candidates.fits is None:
        return candidates.mask
    return torch.cat([candidates.mask & candidates.fits, candidates.mask], dim=1)


def scale_candidates(candidates: Candidates, scaling: str) -> Candidates:
    """Scale the coordinates of each decision.

    The candidates and the last node give the frame; the destination, often far away, does not. ``none`` leaves
    coordinates as they are; ``isotropic`` maps the longer axis onto [0, 1] and keeps the aspect ratio; ``centred`` puts
    the last node at the origin and takes the distance of the farthest candidate as the unit. A zero range scales by 1.
    """
    if scaling == "none":
        return candidates
    last = candidates.last[:, None, :2]
    # What is not there lies at the last node.
    nodes = torch.where(candidates.mask[..., None], candidates.nodes[..., :2], last)
    if scaling == "centred":
        origin = last
        unit = (nodes - last).norm(dim=-1).amax(dim=1)
    else:
        nodes = torch.cat([nodes, last], dim=1)
        origin = nodes.amin(dim=1, keepdim=True)
        unit = (nodes.amax(dim=1) - origin[:, 0]).amax(dim=1)
    unit = torch.where(unit > 0, unit, 1.0)[:, None, None]

    def rescale(places: Tensor) -> Tensor:
        return torch.cat([(places[..., :2] - origin) / unit, places[..., 2:]], dim=-1)

    first, last = rescale(candidates.first[:, None])[:, 0], rescale(candidates.last[:, None])[:, 0]
    return replace(candidates, first=first, last=last, nodes=rescale(candidates.nodes))
