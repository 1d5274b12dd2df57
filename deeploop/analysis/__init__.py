"""Measurements on models: visit alignment (Eq. 10)."""
