//go:build !noasm

package machine

import "golang.org/x/sys/unix"

// unreportedFeatures returns the features that golang.org/x/sys/cpu does not report.
func unreportedFeatures() Features {
	if isPresent, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16"); err == nil && isPresent != 0 {
		return BFloat16
	}
	return 0
}
