//go:build (darwin || freebsd || windows) && !noasm

package jit

import "runtime"

// canSynchronizeCores reports whether memory is made executable with a synchronization of all cores: on Windows by
// FlushInstructionCache.
func canSynchronizeCores() bool { return runtime.GOOS == "windows" }

// synchronizeCores does nothing: FlushInstructionCache or each call synchronizes the core.
func synchronizeCores() error { return nil }
