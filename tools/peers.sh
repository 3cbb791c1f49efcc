#!/usr/bin/env bash
# Makes .venv-peers: the loaders that benchmarks compare with, pinned, and Overlord from its wheel.
# Called by `make peers` after the wheel is built. The environment is apart from .venv because the peers
# hold numpy and others at versions that we do not.
set -euo pipefail
cd "$(dirname "$0")/.."
peers=.venv-peers
stamp=$(sha256sum benchmarks/requirements-peers*.txt tools/peers.sh pyproject.toml)

install() { "$peers/bin/python" -m pip install -qq --disable-pip-version-check "$@" </dev/null; }
if [ "$(cat "$peers/.setup" 2>/dev/null)" != "$stamp" ]; then
  [ -x "$peers/bin/python" ] || .venv/bin/python -m venv "$peers"
  install -r benchmarks/requirements-peers.txt build/wheel/overlord_data-*.whl
  install --no-deps -r benchmarks/requirements-peers-alone.txt
  # Some indexes pair a CPU build of torch with a torchvision that was built for CUDA, whose operators then
  # cannot load, and importing it fails. The streaming library imports it for one base class. Declaring
  # the two operators that the import asks for is enough; nothing that we measure calls them.
  if ! "$peers/bin/python" -c 'import torchvision' 2>/dev/null; then
    module=$(echo "$peers"/lib/python3.*/site-packages/torchvision/__init__.py)
    declared='import torch as _torch; _lib = _torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"): _lib.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")'
    printf '%s\n%s\n' "$declared" "$(cat "$module")" >"$module"
  fi
  echo "$stamp" >"$peers/.setup"
fi
install --no-deps --force-reinstall build/wheel/overlord_data-*.whl
"$peers/bin/python" -c 'import datasets, grain, overlord, streaming, torchdata' 2>/dev/null ||
  { echo "peers: the environment cannot import all of its packages" >&2; exit 1; }
