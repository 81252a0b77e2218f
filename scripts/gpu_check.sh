#!/usr/bin/env bash
# For whoever has a GPU: what the tests elsewhere cannot say. Runs from a checkout after `make install`:
# training steps of the tiny policy on the GPU, the same on the CPU, and the engine tests with vLLM.
# vLLM gets an environment of its own, .harness/gpu/vllm, because its pins do not fit; some gigabytes.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
[ -x "$python" ] || { echo "error: no .venv (run \`make install\`)" >&2; exit 1; }
"$python" -c 'import torch; raise SystemExit(not torch.cuda.is_available())' ||
  { echo "error: torch finds no GPU (see \`nvidia-smi\`, and that torch is no CPU build)" >&2; exit 1; }
"$python" -c 'import torch; print(f"GPU: {torch.cuda.get_device_name()}, torch {torch.__version__}")'

"$python" scripts/gpu_steps.py cuda
"$python" scripts/gpu_steps.py cpu

export ENVACE_HARNESS=$PWD/.harness/gpu
inside=$ENVACE_HARNESS/vllm/venv
if [ ! -e "$inside/.installed" ]; then
  python3 -m venv --clear "$inside"
  "$inside/bin/python" -m pip install --quiet --disable-pip-version-check vllm
  "$inside/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e .
  touch "$inside/.installed"
fi
SECONDS=0
"$python" -m pytest -q -m "slow or not slow" tests/engines
echo "engine tests, vLLM on the GPU: $SECONDS s"
