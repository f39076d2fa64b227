//go:build (linux || darwin || freebsd || windows) && !noasm

package jit

import (
	"errors"

	"github.com/graphrun/graphrun/internal/machine"
)

// returnCode is a function that only returns.
var returnCode = []byte{0xC3}

// generatorError returns why no code can be generated for this processor, or nil.
func generatorError() error {
	if !machine.Host().Has(machine.AVX2) {
		return errors.New("this processor, or GODEBUG, has no AVX2 with FMA, F16C and BMI2")
	}
	return nil
}

//go:noescape
func fence()

// synchronize does nothing: on amd64, instruction caches are coherent with memory, and no pipeline has fetched from a
// new mapping.
func synchronize([]byte) error { return nil }
