# make demo   the whole loop on the embedded lab
# make test   static checks and the ordinary tests; what CI runs
# Both create .venv and install what they need, once. Nothing is asked of the machine but Python 3.11+, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := learn,ros,mesh,tags,view,usd,policies,dev
STAMP := $(VENV)/installed
export PIP_DISABLE_PIP_VERSION_CHECK := 1
WORKERS ?= 2
BENCHES := ingest render worlds  # worlds_gpu and render_gpu need CUDA: python -m bench.worlds_gpu OUT.json

.PHONY: demo test check slow ray bench docs constraints clean

# A walk round a bench becomes splats. Then the lab plays a real robot: two arms pass cubes, from recordings with small
# pictures to evidence and its report, which is audited. The last line finds everything made, and ends with the claims.
demo: $(STAMP)
	rm -rf demo
	$(BIN)/twinproof lab scan push --out demo/scan
	$(BIN)/twinproof splat fit demo/scan --iterations 600 --out demo/looks
	$(BIN)/twinproof demo handover --out demo/handover
	$(BIN)/twinproof audit demo/handover/evidence
	$(BIN)/twinproof demo handover --out demo/handover

test: check
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not gpu"

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Ray (80 MB to fetch) comes with these two alone: a real cluster of several nodes on loopback, whose workers are killed.
slow: $(STAMP)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[ray]"
	$(BIN)/python -m pytest -m slow --timeout 7200

ray: $(STAMP)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[ray]"
	$(BIN)/python -m pytest -m slow --timeout 1200 tests/fleet/test_ray.py

bench: $(STAMP)
	for name in $(BENCHES); do echo "== bench/$$name.py"; $(BIN)/python -m bench.$$name || exit 1; done

# The site in build/site; a link that leads nowhere is an error.
docs: $(STAMP)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[docs]"
	$(BIN)/mkdocs build --strict -q

# torch comes first and exactly: an open range would pull gigabytes of CUDA packages.
$(STAMP): pyproject.toml constraints.txt Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[$(EXTRAS)]"
	touch $(STAMP)

# Resolves the extra `all` beside torch 2.13.0 and writes every version down.
constraints: $(STAMP)
	$(BIN)/python .ci/pin_constraints.py > constraints.new && mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache build
