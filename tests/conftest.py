"""How many random cases the property tests try: few by default, and the same; many with HYPOTHESIS_PROFILE=campaign."""

import os

from hypothesis import HealthCheck, settings

# A deadline measures how busy the machine is; a derandomised run fails on every machine or on none.
settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("campaign", parent=settings.get_profile("default"), derandomize=False, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
