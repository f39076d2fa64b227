//go:build (darwin || freebsd || windows) && !noasm

package jit

import "runtime"

// canSynchronizeCores reports whether the operating system synchronizes all cores when memory is made executable. If
// not, each call of machine code synchronizes the core that executes it (everyCallSynchronizes). On Windows,
// FlushInstructionCache synchronizes all cores. cores_linux_arm64.go has the function for Linux.
func canSynchronizeCores() bool { return runtime.GOOS == "windows" }

// synchronizeCores does nothing: see canSynchronizeCores.
func synchronizeCores() error { return nil }
