// Package software implements a device with the interpreter of kernels (package internal/gpu/ir). The device needs no
// driver, so tests can use it. The interpreter reports races, and accesses outside of memory.
package software

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/gpu/lower"
)

// Open returns a device. All operations of the device give the same results as expr.Code.Eval, so its
// [conform.ExactOps] lists all operations: Exact32 and Exact64 for sums and products, and lower.IEEE for all other
// operations.
func Open() device.Device {
	return &dev{buffers: map[uint64]*buffer{}, next: pageBytes}
}

// pageBytes is the alignment of addresses. The first address is not 0.
const pageBytes = 1 << 12

// dev implements device.Device.
type dev struct {
	buffers map[uint64]*buffer // by address
	next    uint64             // address of the next buffer
}

// buffer is a device.Buffer with its memory, which kernels access. The field Bytes is mem, or nil if the host cannot
// access the buffer.
type buffer struct {
	device.Buffer
	mem []byte
}

// kernel implements device.Kernel.
type kernel struct{ *ir.Kernel }

func (kernel) Free() {} // there is nothing to free

// Info implements device.Device.
func (d *dev) Info() device.Info {
	return device.Info{Name: "interpreter", Driver: "software", Kind: "other", Float16: true,
		ExactOps: conform.ExactOps{Target: lower.IEEE, Exact32: true, Exact64: true}}
}

// Alloc implements device.Device.
func (d *dev) Alloc(bytes int, hostAccess bool) (*device.Buffer, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("software: a buffer has %d bytes: want at least 1", bytes)
	}
	created := &buffer{mem: make([]byte, bytes)}
	created.Buffer = device.Buffer{Address: d.next, Size: bytes, Free: func() { delete(d.buffers, created.Address) }}
	if hostAccess {
		created.Bytes = created.mem
	}
	d.buffers[created.Address] = created
	// At least one byte after each buffer stays free, so that the address after its last byte is in no buffer.
	d.next += (uint64(bytes) + pageBytes) &^ (pageBytes - 1)
	return &created.Buffer, nil
}

// Compile implements device.Device.
func (d *dev) Compile(k *ir.Kernel) (device.Kernel, error) { return kernel{k}, k.Check() }

// Run implements device.Device.
func (d *dev) Run(steps []device.Step) error {
	for i := range steps {
		step := &steps[i]
		if step.Kernel == nil {
			if !step.CopyFits() || d.buffers[step.From.Address] == nil || d.buffers[step.To.Address] == nil {
				return errors.New("software: a copy uses a buffer that is not of this device, or exceeds a buffer")
			}
			copy(d.buffers[step.To.Address].mem[step.ToOffset:],
				d.buffers[step.From.Address].mem[step.FromOffset:][:step.Bytes])
			continue
		}
		launched, ok := step.Kernel.(kernel)
		if !ok {
			return errors.New("software: the kernel of a launch was compiled for another device")
		}
		if len(step.Addresses) != launched.Params {
			return fmt.Errorf("software: a launch has %d addresses: want %d, one for each parameter of the kernel",
				len(step.Addresses), launched.Params)
		}
		// If no buffer contains an address, the operand has no memory. Kernel.Run then reports accesses to it.
		operands := make([]ir.Operand, len(step.Addresses))
		for i, address := range step.Addresses {
			if target := d.bufferAt(address); target != nil {
				operands[i] = ir.Operand{Mem: target.mem, Offset: int(address - target.Address)}
			}
		}
		if err := launched.Run(step.Groups, operands); err != nil {
			return err
		}
	}
	return nil
}

// bufferAt returns the buffer that contains the byte at an address, or nil.
func (d *dev) bufferAt(address uint64) *buffer {
	for _, candidate := range d.buffers {
		if address >= candidate.Address && address-candidate.Address < uint64(len(candidate.mem)) {
			return candidate
		}
	}
	return nil
}

// Close implements device.Device.
func (d *dev) Close() { clear(d.buffers) }
