"""GFACS: ants on a heat that a GFlowNet has learned, with local search (Kim et al., AISTATS 2025); with HBG's losses too."""
