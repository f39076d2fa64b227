//go:build amd64 && !noasm

package gemm

import (
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// thinRoutines are the assembly routines for few rows or columns, by set of features and dtype.
var thinRoutines = map[machine.Features]map[tensor.DType]thinKernels{
	machine.AVX512: {
		tensor.Float32: {axpy4AVX512F32, dotAVX512F32, axpysAVX512F32, dotsAVX512F32},
		tensor.Float64: {axpy4AVX512F64, dotAVX512F64, axpysAVX512F64, dotsAVX512F64},
	},
	machine.AVX2: {
		tensor.Float32: {axpy4AVX2F32, dotAVX2F32, axpysAVX2F32, dotsAVX2F32},
		tensor.Float64: {axpy4AVX2F64, dotAVX2F64, axpysAVX2F64, dotsAVX2F64},
	},
}
