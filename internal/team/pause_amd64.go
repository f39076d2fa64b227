//go:build !noasm

package team

// pause tells the core that this is a loop that waits: it takes some tens of cycles, saves power, and leaves more of
// the core to the other thread on it.
//
//go:noescape
func pause()
