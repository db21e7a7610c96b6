# make demo   the loop, as far as it exists, on the embedded lab
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

.PHONY: demo test check slow bench docs constraints clean

# The lab plays two real robots: an arm with cameras as far as a twin of it and of a can that one click points at, and a
# pendulum through the whole loop, to evidence and its report.
demo: $(STAMP)
	rm -rf demo
	$(BIN)/twinproof lab record push --episodes 12 --seed 0 --out demo/lab --truth demo/truth.json
	$(BIN)/twinproof ingest demo/lab/dataset --rig demo/lab/rig.toml --out demo/recording
	$(BIN)/twinproof inspect demo/recording --png demo/timeline.png
	$(BIN)/twinproof split demo/recording --group-by object,session --out demo/split
	$(BIN)/twinproof audit demo/split
	$(BIN)/twinproof lab scan push --out demo/scan
	$(BIN)/twinproof splat fit demo/scan --iterations 600 --out demo/looks
	$(BIN)/twinproof reconstruct demo/split --robot demo/lab/robot.xml --object can_08 --click front,0,75,65=can_08 \
	  --pictures 20 --background-steps 400 --out demo/twin
	$(BIN)/twinproof audit demo/split demo/twin
	$(BIN)/twinproof demo pendulum --out demo/pendulum
	$(BIN)/twinproof audit demo/pendulum/evidence

test: check
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not gpu"

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow --timeout 7200

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
