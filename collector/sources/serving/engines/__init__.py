"""The engines that are read, one file each; a new one is a file and a line in this table.

The order is that of recognition: a worker of NVIDIA Dynamo has the names of its engine beside its own, and is
that engine.
"""

from __future__ import annotations

from collector.sources.serving.engines.dynamo import DYNAMO
from collector.sources.serving.engines.llama_cpp import LLAMA_CPP
from collector.sources.serving.engines.sglang import SGLANG
from collector.sources.serving.engines.spec import NameMap
from collector.sources.serving.engines.tensorrt_llm import TENSORRT_LLM
from collector.sources.serving.engines.vllm import VLLM

NAME_MAPS: tuple[NameMap, ...] = (VLLM, SGLANG, TENSORRT_LLM, LLAMA_CPP, DYNAMO)
