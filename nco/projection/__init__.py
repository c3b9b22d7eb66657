"""Projections that map large instances onto what a network trained on small ones knows."""
