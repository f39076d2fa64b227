//go:build !noasm

package machine

import "golang.org/x/sys/cpu"

// detected has the features of this processor.
var detected = func() (f Features) {
	processor := &cpu.ARM64
	if !processor.HasASIMD {
		return Portable
	}
	f = NEON | unreportedFeatures()
	for _, extension := range []struct {
		isPresent bool
		feature   Features
	}{
		{processor.HasFPHP && processor.HasASIMDHP, Float16Arithmetic}, {processor.HasASIMDDP, DotBytes128},
		{processor.HasI8MM && processor.HasASIMDDP, MatrixBytes},
	} {
		if extension.isPresent {
			f |= extension.feature
		}
	}
	if processor.HasASIMDFHM && f.Has(Float16Arithmetic) {
		f |= Float16Products
	}
	return f
}()

// hasMatrixUnit is false: only amd64 has a matrix unit.
func hasMatrixUnit() bool { return false }
