//go:build amd64 && !noasm

package gemm

import (
	"reflect"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

var avx512F32 = &kernelSet{
	name: "avx512", mr: 12, nr: 32, kc: 256, maskedCols: true,
	variants: []variant{
		{12, 32, micro12x2AVX512F32}, {8, 32, micro8x2AVX512F32}, {4, 32, micro4x2AVX512F32},
		{12, 16, micro12x1AVX512F32},
	},
	axpy4: axpy4AVX512F32, dot: dotAVX512F32,
}

var avx512F64 = &kernelSet{
	name: "avx512", mr: 12, nr: 16, kc: 192, maskedCols: true,
	variants: []variant{
		{12, 16, micro12x2AVX512F64}, {8, 16, micro8x2AVX512F64}, {4, 16, micro4x2AVX512F64},
		{12, 8, micro12x1AVX512F64},
	},
	axpy4: axpy4AVX512F64, dot: dotAVX512F64,
}

var avx2F32 = &kernelSet{
	name: "avx2", mr: 6, nr: 16, kc: 320,
	variants: []variant{
		{6, 16, micro6x2AVX2F32}, {4, 16, micro4x2AVX2F32}, {2, 16, micro2x2AVX2F32},
	},
	axpy4: axpy4AVX2F32, dot: dotAVX2F32,
}

var avx2F64 = &kernelSet{
	name: "avx2", mr: 6, nr: 8, kc: 256,
	variants: []variant{
		{6, 8, micro6x2AVX2F64}, {4, 8, micro4x2AVX2F64}, {2, 8, micro2x2AVX2F64},
	},
	axpy4: axpy4AVX2F64, dot: dotAVX2F64,
}

// asmKernels lists the assembly kernel sets usable for kind on this CPU, best
// first.
func asmKernels(kind reflect.Kind) []*kernelSet {
	var wide, narrow *kernelSet
	switch kind {
	case reflect.Float32:
		wide, narrow = avx512F32, avx2F32
	case reflect.Float64:
		wide, narrow = avx512F64, avx2F64
	default:
		return nil
	}
	var coded, functions []*kernelSet
	for _, set := range []struct {
		isa machine.ISA
		*kernelSet
	}{{machine.AVX512, wide}, {machine.AVX2, narrow}} {
		if machine.Instructions() >= set.isa {
			coded, functions = append(coded, codedSet(kind, set.isa, set.kernelSet)), append(functions, set.kernelSet)
		}
	}
	if jit.Available() != nil {
		return functions
	}
	return append(coded, functions...)
}
