package jit

import (
	"errors"
	"os"
	"runtime"
	"sync"

	"github.com/graphrun/graphrun/internal/machine"
)

// Available returns nil if loops may be compiled, and otherwise an error with the reason. GRAPHRUN_JIT=off disables
// compilation. The result does not change while the process runs.
func Available() error { return available() }

var available = sync.OnceValue(func() error {
	mode := os.Getenv("GRAPHRUN_JIT")
	switch {
	case mode == "off":
		return errors.New("switched off by GRAPHRUN_JIT=off")
	case !supported:
		return errors.New("there is no machine code for " + runtime.GOOS + "/" + runtime.GOARCH + " in this build")
	case !machine.Host().Has(machine.AVX2):
		return errors.New("this processor, or GODEBUG, has no AVX2 with FMA, F16C and BMI2")
	case raceEnabled && mode != "on":
		return errors.New("the race detector cannot observe machine code (GRAPHRUN_JIT=on compiles it anyway)")
	}
	return newFunc("probe", []byte{0xC3}).Call(new(Args)) // RET
})
