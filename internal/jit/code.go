//go:build (linux || darwin || freebsd || windows) && (amd64 || arm64) && !noasm

package jit

// isSupported reports whether this build can call machine code.
const isSupported = true

// call calls the code at an address with Args. It has no go:noescape directive, so Args and the memory that Args points
// to are on the heap. A stack may move.
func call(entry uintptr, args *Args)
