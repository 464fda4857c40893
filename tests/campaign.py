"""Whether the tests are those of every change, or of `make campaign`, which has hours and goes through every case."""

import os

CAMPAIGN = os.environ.get("HYPOTHESIS_PROFILE") == "campaign"
