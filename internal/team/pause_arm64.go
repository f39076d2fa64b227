//go:build !noasm

package team

// pause tells the core that this is a loop that waits.
//
//go:noescape
func pause()
