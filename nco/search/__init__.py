"""Searches that know no network: they see only a scorer, a callable from a decision to scores."""
