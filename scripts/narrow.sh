#!/bin/sh
# Runs a test program once with each of the environment variables in NARROW, for go test -exec (see Makefile).
for variable in $NARROW; do
	env "$variable" "$@" || { echo "with $variable"; exit 1; }
done
