//go:build !noasm

package workerpool

// pause hints that this is a spin loop.
//
//go:noescape
func pause()
