"""Settings of all tests: machines are shared, so no test fails for being slow once."""

from hypothesis import settings

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
