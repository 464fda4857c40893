"""What ranks learn of failures and do about them: detectors, revocation, agreement, and shrinking."""
