//go:build !linux

package tensor

// ownPages does nothing where large pages cannot be asked for.
func ownPages([]byte) {}
