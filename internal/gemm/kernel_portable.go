//go:build !amd64 || noasm

package gemm

import "github.com/graphrun/graphrun/tensor"

// thinOf returns the assembly for few rows or columns of a dtype: none here.
func thinOf(tensor.DType) (thin, bool) { return thin{}, false }

// codedSets lists the sets of machine code for a dtype: none here.
func codedSets(tensor.DType) []*kernelSet { return nil }
