#!/bin/bash
# Runs real networks: exports them from PyTorch, runs them, and compares with PyTorch's own
# outputs (1e-3 relative, 1e-5 absolute, every element; where some are off, it says how many, and
# how far in units of the largest output); then converts each to a graph file, runs that, and
# checks that it gives the same bits. Prints a table; exits 1 if a model fails.
#
#   scripts/models.sh [MODEL...]        default: the networks listed below
#
# Wanted are ../shared/models/export.py and a Python with torch, torchvision and onnx
# (apt-get install --no-install-recommends python3-torch python3-torchvision python3-onnx);
# PYTHON names it. Without them nothing is checked, and the exit code is 0. Exported models are
# kept in MODELS (default: graphrun-models in the folder for temporary files).
set -u
cd "$(dirname "$0")/.." || exit 2

export=../shared/models/export.py
python=${PYTHON:-/usr/bin/python3}
cache=${MODELS:-${TMPDIR:-/tmp}/graphrun-models}
models=("$@")
if [ ${#models[@]} -eq 0 ]; then
  models=(resnet50 mobilenet_v2 mobilenet_v3_large densenet121 googlenet inception_v3 efficientnet_b0
    shufflenet_v2_x1_0 squeezenet1_1 vgg11 regnet_x_400mf convnext_tiny swin_t vit_b_32 encoder lstm gru unet mlp)
fi

skip() { echo "models.sh: skipped, nothing was checked: $1" >&2; exit 0; }
[ -f "$export" ] || skip "there is no $export"
"$python" -c 'import torch, torchvision, onnx, numpy' 2>/dev/null || skip "$python lacks torch, torchvision or onnx"

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
go build -o "$work/graphrun" ./cmd/graphrun || exit 1

# compare WANT GOT prints "ok" or how they differ, and the largest error.
compare() {
  "$python" - "$1" "$2" <<'PY'
import sys
import numpy as np

want, got = (np.load(path) for path in sys.argv[1:])
worst, scale, wrong = 0.0, 0.0, []
for k in want.files:
    if k not in got.files:
        wrong.append("no output %s" % k)
        continue
    a, b = want[k], got[k]
    if a.dtype != b.dtype or a.shape != b.shape:
        wrong.append("%s is %s%s, want %s%s" % (k, b.dtype, list(b.shape), a.dtype, list(a.shape)))
        continue
    if a.size:
        worst = max(worst, float(np.max(np.abs(a - b))))
        scale = max(scale, float(np.max(np.abs(a))))
    off = np.count_nonzero(~np.isclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True))
    if off:
        wrong.append("%s: %d of %d differ" % (k, off, a.size))
print("ok" if not wrong else ", ".join(wrong), "(off by %.2g, of %.2g)" % (worst, scale))
PY
}

# check MODEL prints its line of the table and fails if the model does.
check() {
  local name=$1 dir=$cache/$1 agrees bits=- log=$work/log start took
  if [ ! -f "$dir/outputs.npz" ]; then
    if ! "$python" "$export" "$name" --out "$dir" >"$log" 2>&1; then
      rm -f "$dir/outputs.npz"
      line "$name" - - "export failed: $(tail -n 1 "$log")"
      return 1
    fi
  fi
  start=$(date +%s%N)
  if ! "$work/graphrun" run "$dir/model.onnx" --inputs "$dir/inputs.npz" --outputs "$work/out.npz" >"$log" 2>&1; then
    line "$name" - - "run failed: $(tail -n 1 "$log")"
    return 1
  fi
  took=$((($(date +%s%N) - start) / 1000000))
  agrees=$(compare "$dir/outputs.npz" "$work/out.npz")
  rm -f "$work"/model.*
  if ! "$work/graphrun" convert "$dir/model.onnx" "$work/model.json" >"$log" 2>&1; then
    bits="convert failed: $(tail -n 1 "$log")"
  elif ! "$work/graphrun" run "$work/model.json" --inputs "$dir/inputs.npz" --outputs "$work/again.npz" >"$log" 2>&1; then
    bits="converted, fails: $(tail -n 1 "$log")"
  elif cmp -s "$work/out.npz" "$work/again.npz"; then
    bits=same
  else
    bits=different
  fi
  line "$name" "${took}ms" "$bits" "$agrees"
  [[ $agrees == ok* && $bits == same ]]
}

line() { printf '%-20s %9s  %-10s %s\n' "$@"; }

failed=0
line model run converted "PyTorch's outputs"
for name in "${models[@]}"; do
  check "$name" || failed=$((failed + 1))
done
echo "$((${#models[@]} - failed)) of ${#models[@]} models agree"
[ "$failed" -eq 0 ]
