//go:build !noasm

package machine

import "golang.org/x/sys/cpu"

// detected has the features of this processor.
var detected = func() (f Features) {
	x := &cpu.ARM64
	if !x.HasASIMD {
		return Portable
	}
	f = NEON | systemFeatures()
	for _, detected := range []struct {
		has     bool
		feature Features
	}{
		{x.HasFPHP && x.HasASIMDHP, Float16Arithmetic}, {x.HasASIMDDP, DotBytes128},
		{x.HasI8MM && x.HasASIMDDP, MatrixBytes},
	} {
		if detected.has {
			f |= detected.feature
		}
	}
	if x.HasASIMDFHM && f.Has(Float16Arithmetic) {
		f |= Float16Products
	}
	return f
}()

// matrixUnit is false: only amd64 has a matrix unit.
func matrixUnit() bool { return false }
