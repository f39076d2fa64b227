//go:build amd64 && !noasm

package machine

import "golang.org/x/sys/cpu"

// detected has the features of this processor, without the matrix unit.
var detected = func() (f Features) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !x.HasBMI2 {
		return Portable
	}
	f = AVX2
	if x.HasAVXVNNI {
		f |= DotBytes256
	}
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		f |= Vector512
		if x.HasAVX512VNNI {
			f |= DotBytes512
		}
	}
	return f
}()
