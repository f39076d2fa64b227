//go:build !noasm

package machine

import "golang.org/x/sys/windows"

// Arguments of IsProcessorFeaturePresent (winnt.h). There is none for FEAT_FHM, so Float16Products is never reported.
const (
	i8mmAvailable = 66 // PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE
	fp16Available = 67 // PF_ARM_V82_FP16_INSTRUCTIONS_AVAILABLE
	bf16Available = 68 // PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE
)

// unreportedFeatures returns the features that golang.org/x/sys/cpu does not report. MatrixBytes requires
// DotBytes128, the dot products of bytes in vectors of 128 bits.
func unreportedFeatures() (f Features) {
	isFeaturePresent := windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessorFeaturePresent")
	for _, query := range []struct {
		argument uintptr
		features Features
	}{{i8mmAvailable, MatrixBytes | DotBytes128}, {fp16Available, Float16Arithmetic}, {bf16Available, BFloat16}} {
		if isPresent, _, _ := isFeaturePresent.Call(query.argument); isPresent != 0 {
			f |= query.features
		}
	}
	return f
}
