//go:build !noasm

package jit

import (
	"os"

	"golang.org/x/sys/unix"
)

// Commands of membarrier(2).
const (
	syncCore         = 1 << 5 // MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE
	registerSyncCore = 1 << 6 // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE
)

// canSynchronizeCores reports whether the kernel can synchronize the cores that run threads of this process.
func canSynchronizeCores() bool {
	return membarrier(registerSyncCore) == nil && membarrier(syncCore) == nil
}

// synchronizeCores makes all cores discard the instructions that they have fetched already.
func synchronizeCores() error {
	if everyCallSynchronizes {
		return nil
	}
	return membarrier(syncCore)
}

// membarrier calls membarrier(2), which has no wrapper in package unix.
func membarrier(command uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, command, 0, 0); errno != 0 {
		return os.NewSyscallError("membarrier", errno)
	}
	return nil
}
