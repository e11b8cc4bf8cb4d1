"""From collected raw files to validated, joined tables."""
