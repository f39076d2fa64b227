//go:build (amd64 || arm64) && !noasm

package jit

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var flushInstructionCache = windows.NewLazySystemDLL("kernel32.dll").NewProc("FlushInstructionCache")

// mapExecutable maps memory, fills it by a call of fill, and makes it executable and read-only.
func mapExecutable(size int, fill func([]byte)) ([]byte, error) {
	address, err := windows.VirtualAlloc(0, uintptr(size), windows.MEM_COMMIT|windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// vet rejects the direct conversion of a uintptr to a pointer.
	memory := unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), size)
	fill(memory)
	err = synchronize(memory)
	if err == nil {
		var oldProtection uint32
		err = windows.VirtualProtect(address, uintptr(size), windows.PAGE_EXECUTE_READ, &oldProtection)
	}
	if err == nil {
		flushed, _, flushErr := flushInstructionCache.Call(uintptr(windows.CurrentProcess()), address, uintptr(size))
		if flushed == 0 { // 0 is a failure
			err = flushErr
		}
	}
	if err != nil {
		unmap(memory)
		return nil, err
	}
	return memory, nil
}

// unmap releases memory. After a failure the memory stays mapped, so the error is ignored.
func unmap(memory []byte) {
	_ = windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(memory))), 0, windows.MEM_RELEASE)
}
