//go:build !noasm

package machine

import "golang.org/x/sys/windows"

// systemFeatures returns the features that golang.org/x/sys/cpu does not report. Windows has no number for FEAT_FHM.
func systemFeatures() (f Features) {
	present := windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessorFeaturePresent")
	for _, x := range []struct {
		number  uintptr // PF_ARM_... of winnt.h
		feature Features
	}{{66, MatrixBytes | DotBytes128}, {67, Float16Arithmetic}, {68, BFloat16}} {
		if has, _, _ := present.Call(x.number); has != 0 {
			f |= x.feature
		}
	}
	return f
}
