"""Neural networks: layers, initialisation, the looped GPT and HRM."""
