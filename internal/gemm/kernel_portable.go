//go:build !amd64 || noasm

package gemm

import "reflect"

// thinOf returns the assembly for few rows or columns of a kind: none here.
func thinOf(reflect.Kind) (thin, bool) { return thin{}, false }

// codedSets lists the sets of machine code for a kind: none here.
func codedSets(reflect.Kind) []*kernelSet { return nil }
