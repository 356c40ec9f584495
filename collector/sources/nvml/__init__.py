"""The NVML source: reads NVIDIA GPUs through the C library that every driver brings.

```
library    one loaded libnvidia-ml, its functions by name, one lock, calls counted
decode     bytes and numbers of NVML into values: pure functions
fields     batches of field values, made once, decoded in bulk
getters    functions with an answer of their own, one row each
gpm        activity between two samples
fabric     the fabric structure, by the driver's version of it
identity   who a GPU is
plan       catalogue rows x what this GPU supports = what is read, and how it fills a block
gpu        one GPU: its sweeps
events     Xids
session    all GPUs of a node between opening and closing NVML
reader     step(now): opens, reads what is due, survives what breaks
child      the reader as a process
```

Only the modules of this package, and the simulator, import pynvml; of it they use the structures and
constants, never its global library handle.
"""
