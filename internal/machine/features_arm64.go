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
	for _, extension := range []struct {
		isPresent bool
		feature   Features
	}{
		{x.HasFPHP && x.HasASIMDHP, Float16Arithmetic}, {x.HasASIMDDP, DotBytes128},
		{x.HasI8MM && x.HasASIMDDP, MatrixBytes},
	} {
		if extension.isPresent {
			f |= extension.feature
		}
	}
	if x.HasASIMDFHM && f.Has(Float16Arithmetic) {
		f |= Float16Products
	}
	return f
}()

// hasMatrixUnit is false: only amd64 has a matrix unit.
func hasMatrixUnit() bool { return false }
