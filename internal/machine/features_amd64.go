//go:build amd64 && !noasm

package machine

import "golang.org/x/sys/cpu"

// detected has the features of this processor, without the matrix unit.
var detected = func() (f Features) {
	processor := &cpu.X86
	if !processor.HasAVX2 || !processor.HasFMA || !processor.HasF16C || !processor.HasBMI2 {
		return Portable
	}
	f = AVX2
	if processor.HasAVXVNNI {
		f |= DotBytes256
	}
	if processor.HasAVX512F && processor.HasAVX512BW && processor.HasAVX512DQ && processor.HasAVX512VL {
		f |= Vector512
		if processor.HasAVX512VNNI {
			f |= DotBytes512
		}
	}
	return f
}()
