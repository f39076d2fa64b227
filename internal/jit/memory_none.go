//go:build !amd64 || !(linux || darwin) || noasm

package jit

import "errors"

// supported says whether this build can call code at all.
const supported = false

var errUnsupported = errors.New("this build has none")

func mapExecutable(int, func([]byte)) ([]byte, error) { return nil, errUnsupported }

func unmap([]byte) {}

// fence: no code writes past the caches.
func fence() {}

// call is not reached: nothing was mapped.
func call(uintptr, *Args) { panic("jit: " + errUnsupported.Error()) }
