#!/bin/sh
# Runs a test program once with each of the environment variables in NARROW, for go test -exec (see Makefile). It leaves
# out the portable path of the packages of RACED, which are relative to ROOT.
package=./${PWD#"$ROOT"/}
for variable in $NARROW; do
	case "$variable $RACED " in "GRAPHRUN_TARGET=portable "*" $package "*) continue ;; esac
	env "$variable" "$@" || { echo "with $variable"; exit 1; }
done
