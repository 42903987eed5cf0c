# `make help` lists the targets. CI calls the same ones.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Nothing outside the checkout is read or written by Ansible and molecule.
export ANSIBLE_HOME := $(CURDIR)/.ansible
export MOLECULE_GLOB := molecule/*/molecule.yml
export PYTHONUNBUFFERED := 1

# program:package or file:package pairs, in Debian's names
TEST_PROGRAMS := age:age borg:borgbackup chromium:chromium cpio:cpio gpg:gpg gpg-agent:gpg-agent gpgconf:gpgconf grub-editenv:grub-common \
                 ipmi_sim:openipmi ipmitool:ipmitool mcopy:mtools promtool:prometheus restic:restic xorriso:xorriso zsh:zsh
# Installation media are made of these. shim-signed installs the boot loader of a machine with UEFI anew, so not there.
ifeq ($(shell uname -m)$(wildcard /sys/firmware/efi),x86_64)
TEST_PROGRAMS += /usr/lib/grub/i386-pc/boot_hybrid.img:grub-pc-bin /usr/lib/shim/shimx64.efi.signed:shim-signed \
                 /usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed:grub-efi-amd64-signed
endif
LAB := ansible-playbook -i .lab/inventory
LAB_IMAGES = $(shell awk '$$1 == "release:" { release = $$2 } $$1 == "gpu:" { print release "/" $$2 }' lab/nodes.yml)
TIMELINE := .lab/timeline
TIMED := LAB_TIMELINE=$(TIMELINE) ANSIBLE_CALLBACK_PLUGINS=lab/callback_plugins ANSIBLE_CALLBACKS_ENABLED=gpulab.node.report,timeline
LAB_PROGRAMS := gpg:gpg gpg-agent:gpg-agent gpgconf:gpgconf  # they sign the stand-in for a repository
SLURM_TESTS := tests/lab/test_rollout_slurm.py tests/lab/test_slurm_join.py tests/lab/test_people.py

.DEFAULT_GOAL := help
.PHONY: help setup test-setup lab lab-up lab-down lint unit unit-slow sanity pylint molecule lab-test offline-test rollout-test slurm-test kill-test accident-test cuda-builds cluster-test \
        share-test test test-changed test-full test-vm test-gpu bench bench-cold plan-matrix catalog-check board-list fault-table diagnosis-table measure docs site build

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the lab needs (programs, .venv, a container engine); to run gpulab, see README.md
	@lab/setup.sh

test-setup: ## install what the tests need beside that
	@lab/setup.sh $(TEST_PROGRAMS)

lab: lab-up ## start two nodes with simulated GPUs and run site.yml on them over SSH
	@$(TIMED) $(LAB) site.yml -l gpu-nodes
	@echo "Where the time went:" && LAB_TIMELINE=$(TIMELINE) lab/timeline.sh
	@echo "The report: $(CURDIR)/reports/latest/report.html"

lab-up: ## start the lab's nodes only
	@mkdir -p .lab && rm -f $(TIMELINE)
	@REQUIREMENTS=run IMAGES="$(LAB_IMAGES)" LAB_TIMELINE=$(TIMELINE) lab/timeline.sh set-up lab/setup.sh $(LAB_PROGRAMS)
	@ANSIBLE_DISPLAY_OK_HOSTS=false $(TIMED) ansible-playbook -i localhost, lab/up.yml -e @lab/nodes.yml
	@ANSIBLE_DISPLAY_OK_HOSTS=false $(TIMED) $(LAB) lab/software.yml

lab-down: setup ## remove the lab's nodes, network and keys
	@ansible-playbook -i localhost, lab/down.yml

lint: test-setup ## ansible-lint (production, strict), yamllint, antsibull-changelog, ruff, mypy
	ansible-lint --config-file .config/ansible-lint.yml
	yamllint --strict .
	antsibull-changelog lint
	ruff check
	ruff format --check
	MYPYPATH=collections mypy --namespace-packages --explicit-package-bases -p ansible_collections.gpulab.node.plugins

unit: test-setup ## unit tests, but for the slow ones
	tests/apart.sh pytest -m 'not slow'

unit-slow: test-setup ## unit tests that start programs: ansible-playbook, Chromium, real transactions that are killed
	tests/apart.sh pytest -m slow

sanity: test-setup ## ansible-test sanity on the built artefact
	tests/sanity.sh

pylint: test-setup ## ansible-test's pylint, beside the rules of ruff
	tests/sanity.sh --test pylint

molecule: test-setup ## every molecule scenario; one of them: make molecule SCENARIO='-s nouveau' (LAB_NODES=debian13 for one node)
	molecule test $(or $(SCENARIO),--all)

lab-test: test-setup ## the lab end to end: bare nodes, site.yml over SSH, again, faults, bad input
	pytest tests/lab --ignore=tests/lab/test_killed.py --ignore=tests/lab/test_accidents.py --ignore=tests/lab/test_shared_builds.py \
	  $(addprefix --ignore=,tests/lab/test_offline.py tests/lab/test_rollout.py $(SLURM_TESTS))

offline-test: test-setup ## a node whose network is cut: from bare to proof, a change and a rebuild by a bundle alone
	pytest tests/lab/test_offline.py

rollout-test: test-setup ## a change over four nodes, one after the other, behind a fence
	pytest tests/lab/test_rollout.py

slurm-test: test-setup ## a change over the nodes of a Slurm with jobs, and what fails there; a Slurm of somebody else's; ten people by one run
	pytest $(SLURM_TESTS)

kill-test: test-setup ## kill site.yml in one task after the other and at random moments; the node has to end where it belongs
	pytest tests/lab/test_killed.py

accident-test: test-setup ## accidents in the middle of site.yml: what it says, and how the next run goes on
	pytest tests/lab/test_accidents.py

cuda-builds: test-setup ## install the real CUDA build of each framework and each toolkit of wheels, prove them without a driver (10 GB, 7 GB at a time)
	pytest tests/builds

cluster-test: test-setup ## the fence in Kubernetes with a real API server, which Debian's source is built into first (a quarter of an hour, 4 GB)
	pytest tests/cluster

share-test: test-setup ## three bare nodes with one kernel: one compiles the driver, the others load its result
	pytest tests/lab/test_shared_builds.py

test: test-setup ## everything that CI runs
	tests/run.py

test-changed: test-setup ## what the changes since main concern; since another branch: make test-changed SINCE=origin/main
	tests/run.py --changed $(or $(SINCE),main)

test-full: test-setup ## every gate, and every scenario whole; written down in docs/tested.md
	tests/run.py --full

test-vm: test-setup ## boot disks of nodes in QEMU with kernels of their own; one of them: make test-vm MACHINE=disks
	tests/vm/run.sh

test-gpu: ## on a machine with an NVIDIA driver: run facts, proof and active tests for real, record them
	@$(or $(wildcard .venv/bin/python),python3) tests/gpu/run.py $(GPU_ARGUMENTS)

bench: test-setup ## benchmarks, as ratios within one run
	tests/bench/run.py

bench-cold: test-setup ## site.yml on a bare node, as a ratio to apt-get install of the same packages (20 to 35 min)
	tests/bench/cold.py

plan-matrix: setup ## what every GPU of the catalog gets on every system
	python3 tests/plan_matrix.py

catalog-check: setup ## what pip, APT and NVIDIA's repositories have and the catalog does not; each framework x CUDA x Python
	python3 tests/catalog_check.py

board-list: setup ## how many of NVIDIA's boards the catalog has, by source; how to read the lists anew is in tests/board_list.py
	python3 tests/board_list.py

fault-table: setup ## every injected fault, the check that finds it, the remedy
	python3 tests/fault_table.py

diagnosis-table: setup ## what the diagnosis says first to texts of public threads: right, none, wrong, false alarm
	python3 tests/diagnosis_table.py

measure: setup ## how far data have types, hard functions, long files, lines; wrong keys put into the code that mypy finds
	python3 tests/measure.py

docs: setup ## write docs/settings.md, docs/errors.md, the roles' READMEs and defaults from the code, and README's picture
	python3 tests/documents.py

site: ## build one site of all documents, modules and roles into .site/html
	@docs/site/build.sh

build: setup ## build the collection's artefact
	ansible-galaxy collection build --force
