//go:build !linux && !darwin && !windows && !noasm

package machine

// unreportedFeatures returns no features: these systems do not report extensions of NEON.
func unreportedFeatures() Features { return 0 }
