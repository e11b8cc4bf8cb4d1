"""Settings of all tests: machines are shared, so none fails for being slow once; whoever ends them leaves nothing."""

import signal

from hypothesis import settings

# As after Ctrl-C, fixtures take down what they have put up. SIGTERM would leave a cluster of theirs running.
signal.signal(signal.SIGTERM, signal.default_int_handler)

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
