//go:build !linux

package tensor

// advise does nothing: other systems are not asked for large pages.
func advise([]byte) {}
