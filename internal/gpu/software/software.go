// Package software is a device that interprets kernels (package internal/gpu/ir). It needs no driver: tests use it. The
// interpreter reports accesses outside of memory and races.
package software

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/gpu/lower"
)

// Open returns a device that promises all operations.
func Open() device.Device {
	return &dev{buffers: map[uint64]*buffer{}, next: pageBytes}
}

// pageBytes is the alignment of buffers.
const pageBytes = 1 << 12

type dev struct {
	buffers map[uint64]*buffer // by address
	next    uint64             // address of the next buffer
}

// buffer is a Buffer with its memory, which Bytes hides if the host does not see it.
type buffer struct {
	device.Buffer
	mem []byte
}

type kernel struct{ *ir.Kernel }

func (kernel) Free() {}

// Info implements device.Device.
func (d *dev) Info() device.Info {
	return device.Info{Name: "interpreter", Driver: "software", Kind: "other", Float16: true,
		Promise: conform.Promise{Target: lower.IEEE, Exact32: true, Exact64: true}}
}

// Alloc implements device.Device.
func (d *dev) Alloc(bytes int, host bool) (*device.Buffer, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("software: a buffer of %d bytes", bytes)
	}
	b := &buffer{mem: make([]byte, bytes)}
	b.Buffer = device.Buffer{Address: d.next, Size: bytes, Free: func() { delete(d.buffers, b.Address) }}
	if host {
		b.Bytes = b.mem
	}
	d.buffers[b.Address] = b
	d.next += (uint64(bytes) + pageBytes) &^ (pageBytes - 1)
	return &b.Buffer, nil
}

// Compile implements device.Device.
func (d *dev) Compile(k *ir.Kernel) (device.Kernel, error) { return kernel{k}, k.Check() }

// Run implements device.Device.
func (d *dev) Run(steps []device.Step) error {
	for i := range steps {
		s := &steps[i]
		if s.Kernel == nil {
			if !s.CopyFits() || d.buffers[s.From.Address] == nil || d.buffers[s.To.Address] == nil {
				return errors.New("software: a copy of other buffers, or of more bytes than these have")
			}
			copy(d.buffers[s.To.Address].mem[s.ToAt:], d.buffers[s.From.Address].mem[s.FromAt:][:s.Bytes])
			continue
		}
		k, ok := s.Kernel.(kernel)
		if !ok || len(s.Addresses) != k.Params {
			return errors.New("software: a launch of another device's kernel, or with other addresses")
		}
		operands := make([]ir.Operand, len(s.Addresses))
		for i, a := range s.Addresses {
			if b := d.bufferAt(a); b != nil {
				operands[i] = ir.Operand{Mem: b.mem, Offset: int(a - b.Address)}
			}
		}
		if err := k.Run(s.Groups, operands); err != nil {
			return err
		}
	}
	return nil
}

// bufferAt returns the buffer that has an address, or nil.
func (d *dev) bufferAt(a uint64) *buffer {
	for _, b := range d.buffers {
		if a >= b.Address && a-b.Address < uint64(len(b.mem)) {
			return b
		}
	}
	return nil
}

// Close implements device.Device.
func (d *dev) Close() { clear(d.buffers) }
