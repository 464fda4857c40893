"""Calibration: from what was measured on a real machine to a machine description, and how well that predicts.

Readers (`formats`) make `Measured` series of what benchmarks print, `layers` fits the costs of a layer to them by means
of `segmentation`, `machine_file` writes the description, and `judge` compares it with what it was not fitted to.
"""
