//go:build !noasm

package workerpool

// pause hints that this is a spin loop: it takes some tens of cycles, saves power, and leaves resources to the sibling
// hyperthread.
//
//go:noescape
func pause()
