#!/bin/bash
# Holds the order of strategies by price to the measured one, for the networks that tell most: those under whose strategies
# plans differ most. It takes two to four minutes on one thread and on two.
#
#   scripts/order.sh FOLDER MODELS
#
# MODELS has a folder for each network with its model.onnx (scripts/networks/zoo.py); those that are missing are left
# out. FOLDER keeps what is measured and the binary that measured it: what is there is not measured again, so that with
# SPAN=120, which ends the measurement after about as many seconds, it can be done in parts. Nothing else should run on
# the machine meanwhile. What is counted, and by which test, scripts/prices.py says.
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
measure() { # runs of networks
  local runs=$1 n paths=(); shift
  for n in "$@"; do [ ! -f "$models/$n/model.onnx" ] || paths+=("$models/$n/model.onnx"); done
  [ ${#paths[@]} -gt 0 ] || return 0
  python3 scripts/prices.py compare --graphrun "$folder/graphrun" --runs "$runs" --span $((end - SECONDS)) \
    "$folder/times" "${paths[@]}"
}
measure 24 $small
measure 8 $large
python3 scripts/prices.py order "$folder/times"
