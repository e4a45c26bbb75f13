"""Engines that serve models: vLLM, SGLang, TensorRT-LLM."""
