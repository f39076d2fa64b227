//go:build !noasm

package team

// pause hints that this is a spin loop.
//
//go:noescape
func pause()
