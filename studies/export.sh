#!/bin/bash
# Exports the networks of the studies, with a symbolic batch size N, to DIR/NAME/model.onnx. Existing ones are kept.
#
#   studies/export.sh DIR [NAME...]        default: all networks of the studies
#
# PYTHON names a Python with torch, torchvision and onnx (default /usr/bin/python3). The networks of the data set are
# those of PyTorch 1.13 and torchvision 0.14; other versions may name values differently. All networks take 17 GB.
set -eu
[ $# -ge 1 ] || { sed -n '2,7s/^# \?//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(realpath "$1"); shift
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  mapfile -t names < <(grep -ho '"file": *"[^"]*/model.onnx"' studies/*.json | sed 's|.*"\([^"]*\)/model.onnx"|\1|' | sort -u)
fi
others=" $("$python" scripts/networks/export.py --list) "
for name in "${names[@]}"; do
  [ ! -f "$folder/$name/model.onnx" ] || continue
  if [[ $others == *" ${name%.0} "* ]]; then
    "$python" scripts/networks/export.py --out "$folder" "${name%.0}" >/dev/null
  else
    "$python" scripts/networks/zoo.py "$name" --dynamic 0=N --out "$folder/$name" >/dev/null
  fi
  echo "$name"
done
