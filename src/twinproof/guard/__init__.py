"""Recording -> Split: groups that never straddle parts, near-duplicates, the sealed holdout, and its audit."""
