"""AGFN: a GFlowNet's heat, learned against a discriminator (Zhang et al., AAAI 2025); with HBG's losses too."""
