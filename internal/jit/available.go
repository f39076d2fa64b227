package jit

import (
	"errors"
	"os"
	"runtime"
	"sync"

	"github.com/graphrun/graphrun/internal/machine"
)

// Available returns nil if machine code can be generated and called, and otherwise an error with the reason. For a
// target that is for planning only ([machine.RunError]), it returns nil if code can be generated. GRAPHRUN_JIT=off
// disables machine code; GRAPHRUN_JIT=on enables machine code under the race detector. The result does not change while
// the process runs.
func Available() error { return availability() }

// availability computes the result of Available once.
var availability = sync.OnceValue(func() error {
	mode := os.Getenv("GRAPHRUN_JIT")
	switch {
	case mode == "off":
		return errors.New("switched off by GRAPHRUN_JIT=off")
	case machine.TargetError() != nil:
		return machine.TargetError()
	case !isSupported:
		return errors.New("there is no machine code for " + runtime.GOOS + "/" + runtime.GOARCH + " in this build")
	case generatorError() != nil:
		return generatorError()
	case raceEnabled && mode != "on":
		return errors.New("the race detector cannot observe machine code (GRAPHRUN_JIT=on compiles it anyway)")
	}
	if machine.RunError() != nil { // code is generated, for plans, and never called
		return nil
	}
	return probeCall()
})

// probeCall maps and calls a function that returns at once. It returns an error if no executable memory is available.
func probeCall() error { return newFunc("probe", retFunction).Call(new(Args)) }
