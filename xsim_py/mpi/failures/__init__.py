"""Failures as ranks learn of them, and what they do about them: detectors, revocation, agreement, and shrinking."""
