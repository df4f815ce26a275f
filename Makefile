# stark-lsp: `make demo` shows it, `make test` proves it. Everything is installed into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Keeps the demo's and the tests' records away from yours.
DEMO_STATE := $(CURDIR)/.cache/demo
DEMO_SAMPLES := new_gelu rms_norm
# `off` where no sandbox works, as on macOS: candidates are plain processes then.
ISOLATION ?= auto
# Each process would compile the sources and tests anew: 6 s of a core for every pytest alone.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format client dist lock site editor-test benchmarks clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/.user: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing stark-lsp with torch into $(VENV) (once; torch is large)"
	@$(BIN)/python -m pip install -qq --upgrade pip
	@$(BIN)/python -m pip install -qq --editable '.[torch]'
	@touch $@

$(BIN)/.dev: $(BIN)/.user pyproject.toml
	@$(BIN)/python -m pip install -qq --editable '.[torch,bench,dev]'
	@touch $@

demo: $(BIN)/.user ## Optimize two samples on the CPU; no key, no GPU
	@mkdir -p $(DEMO_STATE)
	@echo "Optimizing $(words $(DEMO_SAMPLES)) samples, some 2 minutes each on 2 cores"
	@for sample in $(DEMO_SAMPLES); do \
	  STARK_STATE_DIR=$(DEMO_STATE) $(BIN)/stark-lsp optimize samples/$$sample.py \
	    --device cpu --model playbook --budget 3 --seed 0 --isolation $(ISOLATION) \
	    --brief --report $(DEMO_STATE)/$$sample.html || exit $$?; \
	  echo; \
	done
	@echo "To put one into its file: STARK_STATE_DIR=$(DEMO_STATE) $(BIN)/stark-lsp runs apply, with the number above."
	@echo "That was stark-lsp on two samples. Next: $(BIN)/stark-lsp doctor, and docs/start.md for your editor."

# Files with tests that run alone: to read all the others for them takes as long as some of these.
TIMED = $(shell grep -rl --include='test_*.py' 'mark\.timing' tests)

# One process more than there are cores: some wait while others work.
test: $(BIN)/.dev ## Run the tests (6 to 10 minutes on 2 cores)
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not slow and not timing"
	@$(BIN)/python -m pytest -m "timing and not slow" $(TIMED)

test-all: $(BIN)/.dev ## Run all tests, the slow ones and the campaigns too (some 50 minutes on 2 cores)
	@echo "All tests, the slow ones and the campaigns too: some 50 minutes on 2 cores, 10 more for editors that are set up."
	@$(MAKE) --no-print-directory test
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "slow and not timing"
	@$(BIN)/python -m pytest -m "slow and timing" $(TIMED)

lint: $(BIN)/.dev ## Check style, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(BIN)/.dev ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Packing needs no torch, so it does not wait for .user.
$(BIN)/uv:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq uv

client: $(BIN)/uv ## Build the VS Code extension with the server in it (needs node 20 or newer): vscode-client/stark-lsp.vsix
	@$(BIN)/python vscode-client/pack.py --file vscode-client/stark-lsp.vsix

dist: $(BIN)/uv ## Build all that is released into dist/: wheel, sdist, and the extension
	@rm -rf dist
	@$(BIN)/uv build --quiet --out-dir dist && ls dist/*.whl dist/*.tar.gz
	@$(BIN)/python vscode-client/pack.py

lock: $(BIN)/uv ## Renew the versions of what the extension brings along
	@$(BIN)/python vscode-client/pack.py --lock

# Material speaks of MkDocs 2 in every build. Not `--quiet`: it takes the warnings from `--strict` too.
site: $(BIN)/.dev ## Build the documentation as a site: .cache/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open .cache/site/index.html"

editor-test: $(BIN)/.dev ## Try the flow in the real editors that are installed (VS Code, Neovim, Emacs, Helix)
	@for editor in neovim helix; do tests/editor/current.sh $$editor || echo "$$editor cannot be had here; its tests are skipped."; done
	@tests/editor/vscode/setup.sh || echo "VS Code cannot be built here; its tests are skipped."
	@$(BIN)/python -m pytest tests/editor -v

benchmarks: $(BIN)/.dev ## Measure the server, the search and attempts side by side
	@$(BIN)/python benchmarks/server.py
	@$(BIN)/python benchmarks/search.py
	@$(BIN)/python benchmarks/parallel.py

clean: ## Remove what make made, the environment included
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	rm -rf vscode-client/node_modules vscode-client/out vscode-client/*.vsix
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
