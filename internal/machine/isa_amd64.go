//go:build amd64 && !noasm

package machine

import "golang.org/x/sys/cpu"

var instructions = func() ISA {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !x.HasBMI2:
		return Portable
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL:
		return AVX2
	}
	return AVX512
}()

var byteProducts = [...]bool{AVX2: cpu.X86.HasAVXVNNI, AVX512: cpu.X86.HasAVX512VNNI}
