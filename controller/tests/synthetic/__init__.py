"""A SYNTHETIC run folder for tests: made-up operations and I/O with known truth, in the real file formats.

Nothing in it was measured. Binary layouts follow docs/interfaces.md, histogram logs are written by hdrh.
"""

T0 = 1_790_000_000_123_456_789  # the run's start, unix ns, controller's clock
SECOND = 1_000_000_000
