//go:build !(linux || darwin || freebsd || windows) || !(amd64 || arm64) || noasm

package jit

import "errors"

// isSupported reports whether this build can call machine code.
const isSupported = false

var (
	errUnsupported = errors.New("this build cannot map executable memory")
	retFunction    []byte
)

// The files of the other builds document these functions.

func generatorError() error { return errUnsupported }

func mapExecutable(int, func([]byte)) ([]byte, error) { return nil, errUnsupported }

func unmap([]byte) {}

// fence does nothing: there are no non-temporal stores.
func fence() {}

// call is unreachable, because nothing can be mapped.
func call(uintptr, *Args) { panic("jit: " + errUnsupported.Error()) }
