//go:build !amd64 || noasm

package gemm

import "github.com/graphrun/graphrun/tensor"

// thinOf returns false, because this build has no assembly routines.
func thinOf(tensor.DType) (thin, bool) { return thin{}, false }

// codedSets returns nil, because this build generates no machine code.
func codedSets(tensor.DType) []*kernelSet { return nil }
