"""All steps there are, as the modules beside this one register them."""

from tests.fuzz import collective, communicators, messages, mistakes, odds, windows
from tests.fuzz.interpreter import STEPS, Run

__all__ = ["STEPS", "Run", "collective", "communicators", "messages", "mistakes", "odds", "windows"]
