//go:build amd64 && !noasm

package gemm

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// codeSets are the sets of features with routines and machine code, best first.
var codeSets = []machine.Features{machine.AVX512, machine.AVX2}

// thinRoutines are the assembly routines for few rows or columns, by set of features and dtype.
var thinRoutines = map[machine.Features]map[tensor.DType]thin{
	machine.AVX512: {
		tensor.Float32: {axpy4AVX512F32, dotAVX512F32, axpysAVX512F32, dotsAVX512F32},
		tensor.Float64: {axpy4AVX512F64, dotAVX512F64, axpysAVX512F64, dotsAVX512F64},
	},
	machine.AVX2: {
		tensor.Float32: {axpy4AVX2F32, dotAVX2F32, axpysAVX2F32, dotsAVX2F32},
		tensor.Float64: {axpy4AVX2F64, dotAVX2F64, axpysAVX2F64, dotsAVX2F64},
	},
}

// thinOf returns the assembly routines for few rows or columns of a dtype, and whether there are any.
func thinOf(d tensor.DType) (thin, bool) {
	for _, set := range codeSets {
		if machine.Host().Has(set) {
			t, ok := thinRoutines[set][d]
			return t, ok
		}
	}
	return thin{}, false
}

// codedSets lists the kernel sets of machine code for a dtype on this CPU, best first.
func codedSets(d tensor.DType) (list []*kernelSet) {
	if jit.Available() != nil {
		return nil
	}
	for _, set := range codeSets {
		if t, ok := thinRoutines[set][d]; ok && machine.Host().Has(set) {
			list = append(list, codedSet(d, set, t))
		}
	}
	return list
}
