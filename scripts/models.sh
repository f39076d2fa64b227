#!/bin/bash
# Exports networks from PyTorch, runs them, and compares their outputs with PyTorch's (scripts/networks/compare.py).
# Each tensor may differ by 3e-4 of its largest magnitude. Its distance from the network's output in float64 may be at
# most twice that of PyTorch's float32 output with --exact, and four times otherwise, because Winograd convolutions are
# then allowed. Afterwards each network is converted to a graph file, which must give the same bits. Prints a table.
# Exits with 1 if a network fails or nothing was compared.
#
#   scripts/models.sh [MODEL...]        default: the networks listed below
#
# scripts/networks/zoo.py exports the networks; EXPORT names another script with the same arguments. PYTHON names a
# Python with torch, torchvision and onnx (default /usr/bin/python3). MODELS is the folder that keeps exported networks
# (default: graphrun-models in the folder for temporary files).
set -u
cd "$(dirname "$0")/.." || exit 2

export=${EXPORT:-scripts/networks/zoo.py}
python=${PYTHON:-/usr/bin/python3}
cache=${MODELS:-${TMPDIR:-/tmp}/graphrun-models}
models=("$@")
if [ ${#models[@]} -eq 0 ]; then
  models=(resnet18 resnet50 mobilenet_v2 mobilenet_v3_large densenet121 googlenet inception_v3 efficientnet_b0
    shufflenet_v2_x1_0 squeezenet1_1 vgg11 regnet_x_400mf convnext_tiny swin_t vit_b_32 encoder lstm gru unet mlp)
fi

stop() { echo "models.sh: nothing was compared: $1" >&2; exit 1; }
[ -f "$export" ] || stop "there is no $export: EXPORT names it"
"$python" -c 'import torch, torchvision, onnx, numpy' 2>/dev/null || stop "$python lacks torch, torchvision or onnx:
  apt-get install --no-install-recommends python3-torch python3-torchvision python3-onnx
or let PYTHON name one that has them"

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
go build -o "$work/graphrun" ./cmd/graphrun || exit 1
compare=scripts/networks/compare.py

# exported MODEL DIR writes the network, its input, and its outputs in float32 and float64.
exported() {
  [ -f "$2/outputs.npz" ] && [ -f "$2/exact.npz" ] && return
  "$python" "$export" "$1" --out "$2" && "$python" scripts/networks/exact.py "$export" "$1" "$2" && return
  rm -f "$2/outputs.npz"
  return 1
}

# check MODEL prints its line of the table, and fails if the network does not agree.
check() {
  local name=$1 dir=$cache/$1 agrees bits=- log=$work/log start took good=0
  if ! exported "$name" "$dir" >"$log" 2>&1; then
    line "$name" - - "export failed: $(tail -n 1 "$log")"
    return 1
  fi
  start=$(date +%s%N)
  if ! "$work/graphrun" run "$dir/model.onnx" --inputs "$dir/inputs.npz" --outputs "$work/out.npz" >"$log" 2>&1; then
    line "$name" - - "run failed: $(tail -n 1 "$log")"
    return 1
  fi
  took=$((($(date +%s%N) - start) / 1000000))
  agrees=$("$python" "$compare" --times 4 "$dir/outputs.npz" "$work/out.npz" "$dir/exact.npz" 2>&1) || good=1
  if [ $good -eq 0 ]; then
    if ! "$work/graphrun" run "$dir/model.onnx" --exact --inputs "$dir/inputs.npz" --outputs "$work/exact.npz" \
      >"$log" 2>&1; then
      line "$name" - - "run --exact failed: $(tail -n 1 "$log")"
      return 1
    fi
    agrees=$("$python" "$compare" "$dir/outputs.npz" "$work/exact.npz" "$dir/exact.npz" 2>&1) || { good=1; agrees="--exact: $agrees"; }
  fi
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
  line "$name" "${took}ms" "$bits" "$(tail -n 1 <<<"$agrees")"
  [[ $good -eq 0 && $bits == same ]]
}

line() { printf '%-20s %9s  %-10s %s\n' "$@"; }

failed=0
line model run converted "PyTorch's outputs"
for name in "${models[@]}"; do
  check "$name" || failed=$((failed + 1))
done
echo "$((${#models[@]} - failed)) of ${#models[@]} models agree"
[ "$failed" -eq 0 ]
