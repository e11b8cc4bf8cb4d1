"""From the raw files of a run to joined tables that can be trusted: convert, join, validate."""
