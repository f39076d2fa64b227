//go:build (linux || darwin || freebsd || windows) && !noasm

package jit

import (
	"errors"
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// retFunction is the code of a function that returns at once: RET.
var retFunction = []byte{0xC0, 0x03, 0x5F, 0xD6}

// generatorError returns an error with the reason if no code can be generated for this processor.
func generatorError() error {
	if !machine.HostFeatures().Has(machine.NEON) {
		return errors.New("this processor has no NEON, or GRAPHRUN_TARGET excludes it")
	}
	return nil
}

// fence does nothing: there are no non-temporal stores.
func fence() {}

// cleanBytes is the maximum number of bytes for one call of cleanCaches, because such a call cannot be preempted.
const cleanBytes = 32 << 10

// synchronize makes instructions that were written to memory visible to the instruction fetches of all cores. The
// sequence is in Arm's manual (DDI 0487, B2.7.4.2). A new mapping needs it too, because other code may have been at the
// same virtual or physical addresses before.
func synchronize(memory []byte) error {
	for len(memory) > 0 {
		size := min(len(memory), cleanBytes)
		cleanCaches(unsafe.Pointer(unsafe.SliceData(memory)), size)
		memory = memory[size:]
	}
	return synchronizeCores()
}

// cleanCaches writes size bytes at an address from the data cache to the point of unification, and invalidates them in
// the instruction caches. size is positive.
//
//go:noescape
func cleanCaches(address unsafe.Pointer, size int)

// everyCallSynchronizes is true if the operating system cannot synchronize all cores when code is mapped. Each call
// then synchronizes the core that executes it.
var everyCallSynchronizes = !canSynchronizeCores()
