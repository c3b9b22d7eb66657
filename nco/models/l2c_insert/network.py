"""The insertion network of L2C-Insert (Luo et al., NeurIPS 2025), and options that help small networks.

One decoder token stands for the current node, one for each other open node and one for each position of the partial
solution; joint self-attention mixes them and a linear head scores the positions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nco.nn.attention import AttentionLayer
from nco.nn.plane import attention_biases, soften, soften_places
from nco.search.window import Window

WINDOW_SCALINGS = ("none", "axis", "isotropic", "centred")


class InsertionNetwork(nn.Module):
    """Scores the positions where the current node may be inserted.

    The defaults are the paper's network: 2,040,193 parameters for the TSP and 2,040,449 for the CVRP.

    Parameters
    ----------
    problem : {"tsp", "cvrp"}
    dim, heads, head_dim, hidden : int
        Token width, attention heads and their width, feed-forward width.
    encoder_layers, decoder_layers : int
        The encoder sees nodes (0: nodes are only embedded), the decoder sees the tokens of a decision.
    window_scaling : {"none", "axis", "isotropic", "centred"}
        How the coordinates of a window are scaled before it is encoded, see :func:`scale_window`. With ``centred``,
        lengths beyond the window's unit enter the network as 1 + log(length), so that a distant depot or the far end
        of a long edge stays in the range that the network knows.
    geometry : bool
        Beyond the paper: each position token also gets the lengths of the triangle that the insertion makes.
    cost_prior : bool
        Beyond the paper: a learned multiple of the insertion cost is subtracted from the scores.
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
        decoder_layers: int = 9,
        window_scaling: str = "isotropic",
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
            "geometry": geometry,
            "cost_prior": cost_prior,
            "distance_bias": distance_bias,
            "scaled_residuals": scaled_residuals,
        }
        is_cvrp = problem == "cvrp"
        layers = encoder_layers + decoder_layers
        scale = 1 / math.sqrt(2 * layers) if scaled_residuals else 1.0
        self.embed = nn.Linear(2 + is_cvrp, dim)
        self.encoder = nn.ModuleList(AttentionLayer(dim, heads, head_dim, hidden, scale) for _ in range(encoder_layers))
        self.embed_current = nn.Linear(dim, dim)
        self.embed_unvisited = nn.Linear(dim, dim)
        self.embed_position = nn.Linear(2 * dim + is_cvrp, dim)
        self.decoder = nn.ModuleList(AttentionLayer(dim, heads, head_dim, hidden, scale) for _ in range(decoder_layers))
        self.score = nn.Linear(dim, 1)
        self.embed_geometry = nn.Linear(4 + 2 * is_cvrp, dim) if geometry else None
        # A new route, the second, is a choice of its own: its cost alone would forbid it.
        self.prior = nn.Parameter(torch.tensor([10.0, 1.0])) if cost_prior else None
        # Heads start at distance scales from the whole window to a close neighbourhood.
        self.log_distance_weight = (
            nn.Parameter(torch.linspace(-1.0, 2.0, heads).repeat(layers, 1)) if distance_bias else None
        )

    def encode(self, nodes: Tensor, mask: Tensor | None = None) -> Tensor:
        """Embed nodes and let them attend to one another.

        Parameters
        ----------
        nodes : float [B, N, F]
        mask : bool [B, N], optional
            False hides a node.

        Returns
        -------
        float [B, N, dim]
        """
        if self.window_scaling == "centred":
            nodes = soften_places(nodes)
        x = self.embed(nodes)
        bias = self._attention_bias(nodes[..., :2], mask, 0, len(self.encoder))
        for layer, layer_bias in zip(self.encoder, bias, strict=True):
            x = layer(x, layer_bias)
        return x

    def decode(self, window: Window, current: Tensor, unvisited: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Score the positions of encoded nodes.

        Parameters
        ----------
        window : Window
            Masks, remaining capacities and, for the options beyond the paper, coordinates.
        current, unvisited, left, right : float [R, dim], [R, U, dim], [R, P, dim], [R, P, dim]
            Encodings of the window's nodes.

        Returns
        -------
        float [R, P]
            Raw scores, also where the window does not allow the position.
        """
        ends = [left, right]
        if window.remaining is not None:
            ends.append(window.remaining[..., None])
        positions = self.embed_position(torch.cat(ends, dim=-1))
        cost = None
        if self.embed_geometry is not None or self.prior is not None:
            lengths, cost = self._triangle(window)
            if self.embed_geometry is not None:
                positions = positions + self.embed_geometry(lengths)
        x = torch.cat([self.embed_current(current)[:, None], self.embed_unvisited(unvisited), positions], dim=1)
        seen = window.position_mask.new_ones(len(window), 1)
        mask = torch.cat([seen, window.unvisited_mask, window.position_mask], dim=1)
        places = None
        if self.log_distance_weight is not None:
            middle = (window.left[..., :2] + window.right[..., :2]) / 2
            places = torch.cat([window.current[:, None, :2], window.unvisited[..., :2], middle], dim=1)
            if self.window_scaling == "centred":
                places = soften_places(places)
        first_position = 1 + unvisited.shape[1]
        bias = self._attention_bias(places, mask, len(self.encoder), len(self.decoder))
        for number, (layer, layer_bias) in enumerate(zip(self.decoder, bias, strict=True), start=1):
            # The head reads positions only, so the last layer updates nothing else.
            x = layer(x, layer_bias, first_position if number == len(self.decoder) else 0)
        scores = self.score(x).squeeze(-1)
        if self.prior is not None and cost is not None:
            scores = scores - self._prior_cost(cost)
        return scores

    def forward(self, window: Window) -> Tensor:
        """Scale and encode the window's own nodes, and score its positions.

        Returns
        -------
        float [R, P]
            Minus infinity where the current node may not go.
        """
        window = scale_window(window, self.window_scaling)
        open_nodes, places = window.unvisited.shape[1], window.left.shape[1]
        nodes = torch.cat([window.current[:, None], window.unvisited, window.left, window.right], dim=1)
        mask = None
        if self.encoder:
            seen = window.position_mask.new_ones(len(window), 1)
            mask = torch.cat([seen, window.unvisited_mask, window.position_mask, window.position_mask], dim=1)
        encoded = self.encode(nodes, mask).split([1, open_nodes, places, places], dim=1)
        scores = self.decode(window, encoded[0].squeeze(1), *encoded[1:])
        return scores.masked_fill(~window.allowed, -torch.inf)

    def _attention_bias(
        self, places: Tensor | None, mask: Tensor | None, first_layer: int, layers: int
    ) -> list[Tensor | None]:
        """Return each layer's addition to the attention scores: hidden keys and weighted distances."""
        weights = None
        if self.log_distance_weight is not None:
            weights = self.log_distance_weight[first_layer : first_layer + layers]
        return attention_biases(layers, mask, places, weights)

    def _triangle(self, window: Window) -> tuple[Tensor, Tensor]:
        """Return each position's features [R, P, 4 or 6] and its insertion cost [R, P]."""
        current = window.current[:, None, :2]
        left, right = window.left[..., :2], window.right[..., :2]
        to_left, to_right = (current - left).norm(dim=-1), (current - right).norm(dim=-1)
        between = (left - right).norm(dim=-1)
        cost = to_left + to_right - between
        features = [to_left, to_right, between, cost]
        if self.window_scaling == "centred":
            features = [soften(length) for length in features]
            cost = features[-1]
        if window.remaining is not None:
            demand = window.current[:, None, 2]
            spare = torch.log1p(window.remaining / demand.clamp(min=1e-4))
            is_new_route = torch.zeros_like(cost)
            is_new_route[:, -1] = 1
            features += [spare / 4, is_new_route]
        return torch.stack(features, dim=-1), cost

    def _prior_cost(self, cost: Tensor) -> Tensor:
        """Weigh insertion costs; a CVRP's new route, the last position, has a weight of its own."""
        assert self.prior is not None
        weighted = self.prior[0] * cost
        if self.problem == "tsp":
            return weighted
        return torch.cat([weighted[:, :-1], self.prior[1] * cost[:, -1:]], dim=1)


def scale_window(window: Window, scaling: str) -> Window:
    """Scale the coordinates of each row of a window.

    ``none`` leaves them; ``axis`` maps each axis on its own onto [0, 1] (as released, distorting shapes); ``isotropic``
    maps the longer axis onto [0, 1] and keeps the aspect ratio; ``centred`` puts the current node at the origin and
    takes the distance of the farthest kept position as the unit. A zero range scales by 1.
    """
    if scaling == "none":
        return window
    if scaling == "centred":
        return _centre(window)
    groups = (window.current[:, None], window.unvisited, window.left, window.right)
    coords = torch.cat([group[..., :2] for group in groups], dim=1)
    seen = window.position_mask.new_ones(len(window), 1)
    mask = torch.cat([seen, window.unvisited_mask, window.position_mask, window.position_mask], dim=1)[..., None]
    low = coords.masked_fill(~mask, torch.inf).amin(dim=1)
    span = coords.masked_fill(~mask, -torch.inf).amax(dim=1) - low
    if scaling == "isotropic":
        span = span.amax(dim=1, keepdim=True)
    span = torch.where(span > 0, span, 1.0)

    def rescale(nodes: Tensor) -> Tensor:
        shape = (-1,) + (1,) * (nodes.ndim - 2) + (2,)
        scaled = (nodes[..., :2] - low.view(shape)) / span.expand(-1, 2).reshape(shape)
        return torch.cat([scaled, nodes[..., 2:]], dim=-1)

    return _rescaled(window, rescale)


def _centre(window: Window) -> Window:
    origin = window.current[:, None, :2]
    ends = torch.stack([window.left[..., :2], window.right[..., :2]])
    nearer = (ends - origin).norm(dim=-1).amin(dim=0).masked_fill(~window.position_mask, 0.0)
    if window.remaining is not None:
        # The new route lies at the depot, wherever that is: it says nothing of the window's size.
        nearer = nearer[:, :-1]
    radius = nearer.amax(dim=1) if nearer.shape[1] else nearer.new_zeros(len(window))
    if window.unvisited.shape[1]:
        # With hardly a position to see, the nearest open node gives the unit.
        nearest_open = (window.unvisited[:, 0, :2] - origin.squeeze(1)).norm(dim=-1)
        radius = torch.maximum(radius, torch.where(window.unvisited_mask[:, 0], nearest_open, 0.0))
    radius = torch.where(radius > 0, radius, 1.0)

    def rescale(nodes: Tensor) -> Tensor:
        shape = (-1,) + (1,) * (nodes.ndim - 1)
        scaled = (nodes[..., :2] - origin.view((*shape[:-1], 2))) / radius.view(shape)
        return torch.cat([scaled, nodes[..., 2:]], dim=-1)

    return _rescaled(window, rescale)


def _rescaled(window: Window, rescale) -> Window:  # type: ignore[no-untyped-def]
    return Window(
        rescale(window.current),
        rescale(window.unvisited),
        window.unvisited_mask,
        rescale(window.left),
        rescale(window.right),
        window.position_mask,
        window.allowed,
        window.remaining,
    )
