"""Calibration: fitting a machine description to measurements, and validating it.

Readers (`formats`) convert benchmark output to `Measured` series, `layers` fits the costs of a layer to them with
`segmentation`, `machine_file` writes the description, and `judge` compares predictions with further measurements.
"""
