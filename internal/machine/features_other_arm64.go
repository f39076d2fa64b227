//go:build !linux && !darwin && !windows && !noasm

package machine

// systemFeatures returns no features: the other systems report NEON only.
func systemFeatures() Features { return 0 }
