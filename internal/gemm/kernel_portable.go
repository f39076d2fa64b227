//go:build !amd64 || noasm

package gemm

import "reflect"

// asmKernels lists the assembly kernel sets usable for kind: none here.
func asmKernels(reflect.Kind) []*kernelSet { return nil }
