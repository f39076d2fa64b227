//go:build (darwin || freebsd || windows) && !noasm

package jit

import "runtime"

// canSynchronizeCores reports whether the operating system synchronizes all cores when memory is made executable. On
// Windows, FlushInstructionCache does.
func canSynchronizeCores() bool { return runtime.GOOS == "windows" }

// synchronizeCores does nothing: on Windows FlushInstructionCache synchronizes the cores, on other systems each call
// synchronizes its core.
func synchronizeCores() error { return nil }
