#!/bin/bash
# Updates the shipped profile of an instruction set: calibrates this machine, measures the steps of networks under
# several strategies, fits the prices to both (scripts/prices.py), and writes pricing/profiles/NAME.json.
#
#   scripts/profile.sh avx512|avx2|portable FOLDER MODEL.onnx...
#
# FOLDER keeps the measurements. Existing measurements are not repeated, so that the script can be run in parts: one
# call measures for SPAN seconds at most (default: no limit), and the fit uses the measurements that exist. The machine
# should be idle. PYTHON names a Python with numpy (default /usr/bin/python3).
set -eu
[ $# -ge 3 ] || { sed -n '2,11s/^# \?//p' "$0" >&2; exit 2; }
name=$1 folder=$2; shift 2
tags=
case $name in
  avx512) ;;
  avx2) export GODEBUG=cpu.avx512f=off ;;
  portable) tags=noasm ;;
  *) echo "profile.sh: $name is no instruction set: avx512, avx2 or portable" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
mkdir -p "$folder"
shipped=pricing/profiles/$name.json
binary=$folder/graphrun
[ -x "$binary" ] || go build -tags "$tags" -o "$binary" ./cmd/graphrun
[ -f "$folder/calibrated" ] || "$binary" calibrate --out "$folder/calibrated" >/dev/null
timeout "${SPAN:-86400}" "${PYTHON:-/usr/bin/python3}" scripts/prices.py measure --graphrun "$binary" \
  --strategies optimal,propagate,channels_last "$folder/steps" "$@" || [ $? -eq 124 ]
"${PYTHON:-/usr/bin/python3}" scripts/prices.py fit --profile "$folder/calibrated" --ship "$shipped" "$folder/steps"
"${PYTHON:-/usr/bin/python3}" scripts/prices.py check --profile "$shipped" "$folder/steps"
