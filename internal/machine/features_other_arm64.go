//go:build !linux && !darwin && !windows && !noasm

package machine

// systemFeatures returns no features: these systems do not report extensions of NEON.
func systemFeatures() Features { return 0 }
