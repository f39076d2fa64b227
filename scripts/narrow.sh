#!/bin/sh
# Runs a test program on several paths, for go test -exec (see Makefile): on the default path if FIRST is set and, in the
# folders SEVERAL, with each of the environment variables NARROW, without the tests SKIP. The folders RACED have no
# portable path here.
holds() { echo "$1" | grep -qxF "$PWD"; }
if [ -n "$FIRST" ]; then "$@" || exit 1; fi
holds "$SEVERAL" || exit 0
for variable in $NARROW; do
	if [ "$variable" = GRAPHRUN_TARGET=portable ] && holds "$RACED"; then continue; fi
	env "$variable" "$@" -test.skip "$SKIP" || { echo "with $variable"; exit 1; }
done
