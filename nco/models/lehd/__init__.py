"""LEHD: a light encoder and a heavy decoder that append the next node of a path (Luo et al., NeurIPS 2023)."""
