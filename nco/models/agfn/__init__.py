"""AGFN: a heat that a GFlowNet has learned from a discriminator (Zhang et al., AAAI 2025); HBG's losses by option."""
