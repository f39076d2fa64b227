//go:build !amd64 || noasm

package strided

import "unsafe"

const vectors = false

func transpose4x32(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}

func transpose4x64(n int, dst unsafe.Pointer, step int, s0, s1, s2, s3 unsafe.Pointer) {}
