//go:build (linux || darwin || freebsd || windows) && !noasm

package jit

import (
	"errors"

	"github.com/graphrun/graphrun/internal/machine"
)

// retFunction is the code of a function that returns at once: RET.
var retFunction = []byte{0xC3}

// generatorError returns an error with the reason if no code can be generated for this processor.
func generatorError() error {
	if !machine.HostFeatures().Has(machine.AVX2) {
		return errors.New("this processor, or GODEBUG, has no AVX2 with FMA, F16C and BMI2")
	}
	return nil
}

// fence executes SFENCE, which orders non-temporal stores.
//
//go:noescape
func fence()

// synchronize does nothing: on amd64, instruction caches are coherent with memory, and no core has fetched
// instructions from a new mapping.
func synchronize([]byte) error { return nil }
