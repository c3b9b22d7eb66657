"""Supervised training of LEHD."""

from __future__ import annotations

from torch import Tensor, nn

from nco.models.lehd.network import LehdNetwork
from nco.models.lehd.pretrained import load_lehd
from nco.models.lehd.sampling import TrainingStates
from nco.models.lehd.validation import HeldOut, validation_gaps
from nco.models.training import SupervisedModule


class LehdModule(SupervisedModule):
    """Cross-entropy of the label's next node (LEHD, section 4.3 of the paper).

    Parameters
    ----------
    problem, dim, ..., scaled_residuals
        The network, see :class:`nco.models.lehd.network.LehdNetwork`.
    learning_rate, weight_decay : float
        AdamW's.
    warmup : float
        Share of the steps over which the learning rate rises linearly.
    decay : {"cosine", "exponential", "constant"}
        From the peak to ``final_rate`` times it over the run's steps.
    final_rate : float
    validation_iterations : int
        Iterations of random reconstruction on the instances that a validation solves.
    compile : bool
        Whether to ``torch.compile`` the network for training.
    start_from : str, optional
        Weights that training starts from, of a network of the same options: anything that
        :func:`nco.models.lehd.pretrained.load_lehd` loads. A resumed run goes on from its own checkpoint.
    """

    KINDS = ("segment", "whole")

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
        learning_rate: float = 1e-4,
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.98),
        warmup: float = 0.02,
        decay: str = "cosine",
        final_rate: float = 0.01,
        validation_iterations: int = 10,
        compile: bool = False,
        start_from: str | None = None,
    ):
        super().__init__()
        self.save_hyperparameters()
        self.check_decay()
        self.network = LehdNetwork(
            problem,
            dim,
            heads,
            head_dim,
            hidden,
            encoder_layers,
            decoder_layers,
            window_scaling,
            softened,
            geometry,
            cost_prior,
            distance_bias,
            scaled_residuals,
        )

    def scores(self, batch: TrainingStates) -> Tensor:
        """Return the scores of all moves, float [R, K] or [R, 2K]."""
        return self.network(batch.candidates)

    def solve(self, batch: HeldOut) -> dict[str, float]:
        """Return the gaps of held-out instances after greedy decoding and after random reconstruction."""
        # Not the compiled network: every step of a search has another shape.
        iterations = self.hparams["validation_iterations"]
        greedy, final = validation_gaps(self.network.forward, batch, iterations, self.device)
        return {"gap_greedy": greedy} if final is None else {"gap_greedy": greedy, "gap_reconstruction": final}

    def load(self, source: str) -> nn.Module:
        """Load a trained network of the same problem."""
        return load_lehd(source, self.hparams["problem"]).network
