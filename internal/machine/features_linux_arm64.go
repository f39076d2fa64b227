//go:build !noasm

package machine

import "golang.org/x/sys/unix"

// Entries of the auxiliary vector and their bits (Linux, arch/arm64/include/uapi/asm/hwcap.h).
const (
	atHWCAP2   = 26
	hwcap2BF16 = 1 << 14
)

// unreportedFeatures returns the features that golang.org/x/sys/cpu does not report.
func unreportedFeatures() Features {
	auxv, err := unix.Auxv()
	if err != nil {
		return 0
	}
	for _, entry := range auxv {
		if entry[0] == atHWCAP2 && entry[1]&hwcap2BF16 != 0 {
			return BFloat16
		}
	}
	return 0
}
