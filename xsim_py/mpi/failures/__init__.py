"""Failures from the ranks' point of view: detectors, revocation, agreement and shrinking."""
