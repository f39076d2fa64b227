#!/bin/bash
# Compares the order of strategies by price with their order by measured time, for the networks whose plans differ most
# between strategies. Takes two to four minutes, with one thread and with two.
#
#   scripts/order.sh FOLDER MODELS
#
# MODELS has a folder for each network with its model.onnx (scripts/networks/zoo.py); missing networks are skipped.
# FOLDER keeps the measurements and the binary that was measured. Existing measurements are not repeated, so that the
# script can be run in parts: SPAN=120 ends it after about 120 seconds. The machine should be idle. scripts/prices.py
# describes what is counted, and the statistical test.
set -eu
[ $# -eq 2 ] || { sed -n '2,12s/^# \?//p' "$0" >&2; exit 2; }
folder=$(realpath -m "$1") models=$(realpath "$2")
cd "$(dirname "$0")/.."
small="shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0 squeezenet1_1 mobilenet_v3_small
  mnasnet0_5 mobilenet_v2 regnet_y_400mf efficientnet_b0 encoder unet resnet18 googlenet"
large="densenet121 swin_t vit_b_32 maxvit_t convnext_tiny alexnet"
mkdir -p "$folder"
[ -x "$folder/graphrun" ] || go build -o "$folder/graphrun" ./cmd/graphrun
end=$((SECONDS + ${SPAN:-86400}))
measure() { # measure RUNS NETWORK...
  local runs=$1 n paths=(); shift
  for n in "$@"; do [ ! -f "$models/$n/model.onnx" ] || paths+=("$models/$n/model.onnx"); done
  [ ${#paths[@]} -gt 0 ] || return 0
  python3 scripts/prices.py compare --graphrun "$folder/graphrun" --runs "$runs" --span $((end - SECONDS)) \
    "$folder/times" "${paths[@]}"
}
measure 24 $small
measure 8 $large
python3 scripts/prices.py order "$folder/times"
