//go:build !linux

package tensor

// adviseLargePages does nothing on systems without madvise(MADV_HUGEPAGE).
func adviseLargePages([]byte) {}
