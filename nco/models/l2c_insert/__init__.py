"""L2C-Insert: a network that inserts nodes at any position of a partial solution (Luo et al., NeurIPS 2025)."""
