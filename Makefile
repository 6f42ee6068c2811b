# Every target sets up what it needs: a virtual environment in .venv with the pinned packages.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# Bytecode is kept even where the shell forbids it: each process of the tests would compile package and tests anew, five seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quick test lint ci setup clean tinycpt bench calibrate stale references plans designs schedules watching conditioning choice ladders mixtures experts discrepancy cpt tuning docs pages wheel notebooks

setup: $(READY)

# The first interpreter from 3.12 to 3.14 among these; uv brings one where there is none. Modules are compiled when they are first
# imported: all of those installed took as long again as the rest.
$(READY): pyproject.toml constraints.txt
	@set -e; found=""; \
	for p in python3 python3.14 python3.13 python3.12; do \
	  if command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(not (3, 12) <= sys.version_info < (3, 15))' 2>/dev/null; then found=$$p; break; fi; \
	done; \
	if [ -n "$$found" ]; then \
	  echo "setting up .venv with $$($$found --version)"; $$found -m venv --clear $(VENV); \
	elif command -v uv >/dev/null; then \
	  echo "setting up .venv with uv"; uv venv --seed --clear --python 3.13 $(VENV); \
	else \
	  echo "bayeslaw needs Python 3.12 to 3.14 and found none among python3, python3.14, python3.13, python3.12 and uv."; \
	  echo "Install one, for example: apt install python3.13 python3.13-venv, brew install python@3.13, or https://docs.astral.sh/uv"; \
	  exit 1; \
	fi; \
	$(PY) -m pip install --no-compile --quiet --disable-pip-version-check --upgrade "pip>=25.1" -c constraints.txt; \
	$(PY) -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt --group dev -e ".[docs]"; \
	touch $(READY)

demo: $(READY)
	$(VENV)/bin/bayeslaw demo

# The unit tests but for the slow ones: under a minute on two cores, no sampling.
quick: $(READY)
	$(PY) -m pytest -q -n 2 --dist worksteal -m "not slow" tests/unit

test: $(READY)
	$(PY) -m pytest -q -n 2 --dist worksteal

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

# The documentation site, into docs/_build/html; every warning is an error. First the pages that are made: reference, gallery, laws.
docs: pages
	$(PY) -m sphinx -q -W --keep-going -d docs/_build/doctrees docs docs/_build/html

pages: $(READY)
	$(PY) docs/make.py

# Builds wheel and sdist into dist, then installs the wheel in an empty environment and uses it there.
wheel: $(READY)
	$(PY) tools/try_wheel.py

# Executes the notebooks from their scripts, a minute each at most; 08 downloads its losses. `make test` runs them too.
notebooks: $(READY)
	$(PY) notebooks/make.py

ci: lint test docs wheel

# This target and those below, up to the references, measure bayeslaw. Public losses that they do not download are read from the folder
# that BAYESLAW_SHARED_DATA names (../shared/data without it).

# Measures speed and writes benchmarks/results; the peers set up environments of their own (PyStan needs python3.11). Hours.
bench: $(READY)
	@set -e; for b in sampling throughput bigdata many backtest samplers peers; do \
	  echo "benchmarks/$$b.py"; $(PY) benchmarks/$$b.py > benchmarks/results/.$$b.tmp; mv benchmarks/results/.$$b.tmp benchmarks/results/$$b.md; \
	done

# Lists the tables in benchmarks/results that are older than the last change of what they measure (benchmarks/tables.toml).
stale: $(READY)
	@$(PY) benchmarks/tables.py

# Fits truths drawn from every card's own prior, and under every noise, and writes benchmarks/results/calibration.md with its figures.
# Long: hours on two cores; after Ctrl-C it resumes where it stopped.
calibrate: $(READY)
	$(PY) benchmarks/calibrate.py

# Fits small models on mixtures of seven domains and forecasts large ones on others, and compares forms of the law by hold-outs among the
# small models, and laws of mixtures at one budget; downloads the latter. Twenty minutes on two cores.
mixtures: $(READY)
	@$(PY) benchmarks/mixture_forms.py > benchmarks/results/.mixtures.tmp && mv benchmarks/results/.mixtures.tmp benchmarks/results/mixture_forms.md
	@$(PY) benchmarks/mixtures.py > benchmarks/results/.mixtures.tmp && mv benchmarks/results/.mixtures.tmp benchmarks/results/mixtures.md
	@$(PY) benchmarks/one_budget.py > benchmarks/results/.mixtures.tmp && mv benchmarks/results/.mixtures.tmp benchmarks/results/one_budget.md

# Fits the lower part of every public ladder and scores its forecasts of the rest and of the best N, and the exponents of
# whole ladders: ten minutes on two cores.
ladders: $(READY)
	@for b in ladders ratios best_sizes exponents; do $(PY) benchmarks/$$b.py > benchmarks/results/.$$b.tmp && mv benchmarks/results/.$$b.tmp benchmarks/results/$$b.md || exit 1; done

# The learnt discrepancy on simulated truths: ten minutes on two cores.
discrepancy: $(READY)
	$(PY) benchmarks/discrepancy.py > benchmarks/results/.discrepancy.tmp && mv benchmarks/results/.discrepancy.tmp benchmarks/results/discrepancy.md

# Continual pre-training: forecasts of unseen stages and sizes on every measured sweep, of models of usual sizes, simulated, plans judged
# by measured losses, and sampling with several seeds, which resumes where it stopped. An hour on two cores.
cpt: $(READY)
	@for b in cpt one_checkpoint real_sizes judged_plans cpt_sampling; do $(PY) benchmarks/$$b.py > benchmarks/results/.$$b.tmp && mv benchmarks/results/.$$b.tmp benchmarks/results/$$b.md || exit 1; done

# Buys runs on truths drawn from a prior, on tinycpt and from two public pools: an hour on two cores. The first resumes where it stopped.
designs: $(READY)
	@set -e; for b in anchors purchases pools; do \
	  echo "benchmarks/$$b.py"; $(PY) benchmarks/$$b.py > benchmarks/results/.$$b.tmp; mv benchmarks/results/.$$b.tmp benchmarks/results/$$b.md; \
	done

# Plans on truths drawn from priors (half an hour on two cores; resumes where it stopped), and on three cases.
plans: $(READY)
	$(PY) benchmarks/plans.py
	$(PY) benchmarks/plan_cases.py

# Forecasts loss curves under unseen learning-rate schedules: public ones of three models, downloaded, and tinycpt's. Twenty minutes.
schedules: $(READY)
	@for b in schedules dynamics; do $(PY) benchmarks/$$b.py > benchmarks/results/.$$b.tmp && mv benchmarks/results/.$$b.tmp benchmarks/results/$$b.md || exit 1; done

# Replays logs of running runs and forecasts their final losses. Half an hour. `watching_trainer.py` needs bayeslaw[trainer].
watching: $(READY)
	@$(PY) benchmarks/watching.py > benchmarks/results/.watching.tmp && mv benchmarks/results/.watching.tmp benchmarks/results/watching.md

# Forecasts left-out rows of tinycpt's fitted checkpoints and runs, and plans from them. Two minutes.
conditioning: $(READY)
	@$(PY) benchmarks/conditioning.py > benchmarks/results/.conditioning.tmp
	@mv benchmarks/results/.conditioning.tmp benchmarks/results/conditioning.md

# Chooses laws for the upper third of compute of public ladders by the rows below. Ten minutes on two cores.
choice: $(READY)
	@$(PY) benchmarks/choice.py > benchmarks/results/.choice.tmp
	@mv benchmarks/results/.choice.tmp benchmarks/results/choice.md

# Forecasts mixtures of experts larger than those fitted, on public losses that it downloads. Ten minutes on two cores.
experts: $(READY)
	@$(PY) benchmarks/experts.py > benchmarks/results/.experts.tmp
	@mv benchmarks/results/.experts.tmp benchmarks/results/experts.md

# Learning rates and batch sizes of public grids, the largest size held out. Ten minutes on two cores.
tuning: $(READY)
	@$(PY) benchmarks/tuning.py > benchmarks/results/.tuning.tmp
	@mv benchmarks/results/.tuning.tmp benchmarks/results/tuning.md

# Samples independently written models for long, for tests/references. Ten minutes of one core; resumes where it stopped.
references: $(READY)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt --group references
	$(PY) benchmarks/references.py

# Trains the models of data/tinycpt and data/tinycpt2 that are not in their folders .cache, and writes tables and figures; installs
# JAX. Hours. For tinycpt3 see its README.
tinycpt: $(READY)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[tinycpt]"
	$(PY) data/tinycpt/make.py
	$(PY) data/tinycpt/make.py --sweep tinycpt2
	$(PY) data/tinycpt/curves.py
	$(PY) data/tinycpt/figure.py

clean:
	rm -rf $(VENV) demo-output dist docs/_build docs/_made
