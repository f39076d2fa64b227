//go:build (linux || darwin || freebsd || windows) && (amd64 || arm64) && !noasm

package jit

// supported reports whether this build can call machine code.
const supported = true

// call calls the code at an address with Args. Args and the memory that it points to escape to the heap, because stacks
// move.
func call(entry uintptr, args *Args)
