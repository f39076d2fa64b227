//go:build !linux && !darwin && !windows && !noasm

package machine

// unreportedFeatures returns the features that golang.org/x/sys/cpu does not report: none, because these systems are
// not asked.
func unreportedFeatures() Features { return 0 }
