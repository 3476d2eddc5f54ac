"""SGLang's external model package: name it in SGLANG_EXTERNAL_MODEL_PACKAGE."""
