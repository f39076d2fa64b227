//go:build !amd64 || noasm

package gemm

import (
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// thinRoutines is empty, because this build has no assembly routines.
var thinRoutines map[machine.Features]map[tensor.DType]thinKernels
