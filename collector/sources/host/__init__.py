"""Sources of the host itself, beside the GPUs."""
