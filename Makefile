# Two commands do all the set-up on a fresh machine: `make confirm` and `make test`.
# A CPU build of torch is installed; `make confirm TORCH=cuda` takes the CUDA build instead.

PYTHON ?= python3
VENV ?= .venv
TORCH ?= cpu
TORCH_VERSION := 2.13.0
BIN := $(VENV)/bin
READY := $(VENV)/.installed-$(TORCH)

.PHONY: confirm test install lint types format wheel clean

confirm: $(READY)
	$(BIN)/harness run conf=confirm_raven

test: $(READY)
	$(BIN)/python -m pytest

install: $(READY)

$(READY): pyproject.toml Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(MAKE) --no-print-directory torch-$(TORCH)
	$(BIN)/python -m pip install -q -e '.[dev]'
	touch $@

# The version with its local label exists only as a CPU build, so a CUDA build can't slip in. Where
# pip's own index does not carry it, uv knows where PyTorch's CPU builds are published.
.PHONY: torch-cpu torch-cuda
torch-cpu:
	$(BIN)/python -m pip install -q 'torch==$(TORCH_VERSION)+cpu' 2>/dev/null || \
	  { $(BIN)/python -m pip install -q uv && \
	    $(BIN)/uv pip install -q --python $(BIN)/python --torch-backend cpu 'torch==$(TORCH_VERSION)'; }

torch-cuda:
	$(BIN)/python -m pip install -q 'torch==$(TORCH_VERSION)'

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(READY)
	$(BIN)/python -m build -q --wheel

clean:
	rm -rf $(VENV) build dist
