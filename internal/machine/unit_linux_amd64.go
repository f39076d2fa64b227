//go:build !noasm

package machine

import (
	"sync"
	"syscall"

	"golang.org/x/sys/cpu"
)

// A process must request permission from Linux to use the tile registers, because they enlarge signal frames
// (arch_prctl(2), Documentation/arch/x86/xstate.rst).
const (
	requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
	tileData          = 18     // XFEATURE_XTILE_DATA
)

// hasMatrixUnit requests the permission once, for all threads, and reports whether Linux grants it. Linux denies it if
// a signal stack is too small; Go's signal stacks are large enough.
var hasMatrixUnit = sync.OnceValue(func() bool {
	processor := &cpu.X86
	if !detected.Has(AVX512) || !processor.HasAMXTile || !processor.HasAMXInt8 {
		return false
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
})
