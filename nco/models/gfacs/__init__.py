"""GFACS: ants on a heat that a GFlowNet has learned (Kim et al., AISTATS 2025), with HBG's losses by option."""
