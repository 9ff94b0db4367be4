"""Accuracy and calibration of models."""
