"""The NVML double: a libnvidia-ml.so.1 in C, and what builds it."""
