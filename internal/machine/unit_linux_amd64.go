//go:build !noasm

package machine

import (
	"sync"
	"syscall"

	"golang.org/x/sys/cpu"
)

// What Linux is asked for the tiles of the matrix unit, which a process has to ask for before it touches one: it makes
// signal frames larger. (arch_prctl(2), Documentation/arch/x86/xstate.rst)
const (
	requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
	tileData          = 18     // XFEATURE_XTILE_DATA
)

// matrixUnit asks once, for all threads. Linux refuses where one has a stack for signals that is too small, which those
// of Go are not.
var matrixUnit = sync.OnceValue(func() bool {
	x := &cpu.X86
	if instructions != AVX512 || !x.HasAMXTile || !x.HasAMXInt8 {
		return false
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
})
