"""An arm that somebody already serves: any OpenAI-compatible or SGLang-native HTTP endpoint.

Only the standard library and `harness.backends.base` are imported here, so that the same client
also drives the servers that `harness.backends.sglang` starts from another environment.
"""
