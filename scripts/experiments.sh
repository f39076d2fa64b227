#!/bin/bash
# Updates the outputs in docs/experiments.md: runs every command of its ```console blocks (the lines that begin with a
# dollar sign) and replaces the following lines with the command's standard output.
#
#   scripts/experiments.sh RESNET18.onnx
#
# The commands call the model resnet18.onnx. scripts/models.sh exports one (torchvision's resnet18, batch size 1). The
# machine should be idle, because some of the outputs are measurements.
set -eu
[ $# -eq 1 ] && [ -f "$1" ] || { echo "usage: scripts/experiments.sh RESNET18.onnx" >&2; exit 2; }
model=$(realpath "$1")
cd "$(dirname "$0")/.."
page=$PWD/docs/experiments.md
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
go build -o "$work/graphrun" ./cmd/graphrun
ln -s "$model" "$work/resnet18.onnx"
cp examples/models/residual.{json,npz} "$work"
export PATH="$work:$PATH"

inside= # inside a block, and after its first command, where the old output is dropped
while IFS= read -r line; do
  case "$inside$line" in
    '```console') inside=block; echo "$line" ;;
    block'```') inside=; echo "$line" ;;
    block'$ '*)
      echo "$line"
      command=${line#\$ }
      (cd "$work" && bash -c "$command" >printed 2>>messages) ||
        { cat "$work/messages" >&2; echo "failed: $command" >&2; exit 1; }
      # A command that prints nothing has a stale pattern.
      [ -s "$work/printed" ] || { echo "prints nothing: $command" >&2; exit 1; }
      cat "$work/printed" ;;
    block*) ;;
    *) echo "$line" ;;
  esac
done <"$page" >"$work/page"
cat "$work/page" >"$page"
cp "$work/residual.svg" docs/view.svg
