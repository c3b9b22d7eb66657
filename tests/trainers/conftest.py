"""Recipes of tiny trainings, on labels of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

RECIPE = """
seed_everything: 1
model:
  class_path: nco.models.l2c_insert.module.InsertionModule
  init_args:
    {{problem: {problem}, dim: 8, heads: 2, head_dim: 4, hidden: 8, encoder_layers: 0, decoder_layers: 1,
    geometry: true, learning_rate: 1.0e-2, validation_iterations: 1}}
data:
  class_path: nco.models.l2c_insert.data.InsertionData
  init_args:
    {{labels: [{labels}], batch_size: 8, positions: 6, unvisited: 3, hole_sizes: [2, 5], pool_instances: 6,
    states_per_instance: 4, validation: 4, validation_instances: 2, seed: 3}}
"""

LEHD_RECIPE = """
seed_everything: 1
model:
  class_path: nco.models.lehd.module.LehdModule
  init_args:
    {{problem: tsp, dim: 8, heads: 2, head_dim: 4, hidden: 8, encoder_layers: 0, decoder_layers: 1,
    window_scaling: isotropic, softened: true, geometry: true, learning_rate: 1.0e-2, validation_iterations: 1}}
data:
  class_path: nco.models.lehd.data.LehdData
  init_args:
    {{labels: [{labels}], batch_size: 8, k: 5, pool_instances: 6, states_per_instance: 4, validation: 4,
    validation_instances: 2, seed: 3}}
"""

TRAINER = """
trainer:
  default_root_dir: {root}
  accelerator: cpu
  devices: 1
  max_steps: 12
  val_check_interval: 4
  check_val_every_n_epoch: null
  log_every_n_steps: 1
  callbacks:
    - {{class_path: nco.trainers.averaging.AveragedWeights, init_args: {{decay: 0.9}}}}
"""


@pytest.fixture(scope="session")
def tiny_labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a labelled set of 30 random TSPs of 10 nodes; the tours are random too."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("labels") / "tiny.npz"
    tours = np.stack([rng.permutation(10) for _ in range(30)])
    np.savez(path, problem="tsp", coords=rng.random((30, 10, 2)), tour=tours)
    return path


@pytest.fixture
def recipe(tiny_labels: Path, tmp_path: Path) -> Path:
    """Return the recipe of a run in the folder ``run`` beside it."""
    path = tmp_path / "tiny.yaml"
    path.write_text((RECIPE + TRAINER).format(problem="tsp", labels=tiny_labels, root=tmp_path / "run"))
    return path


@pytest.fixture
def lehd_recipe(tiny_labels: Path, tmp_path: Path) -> Path:
    """Return the recipe of a run of LEHD in the folder ``run`` beside it."""
    path = tmp_path / "tiny.yaml"
    path.write_text((LEHD_RECIPE + TRAINER).format(labels=tiny_labels, root=tmp_path / "run"))
    return path
