"""Building blocks of the networks; they know nothing of routing."""
