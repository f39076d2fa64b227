// Package backend runs nodes of graphs on devices: it makes a graph.Device of a driver's device.
package backend

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Device implements graph.Device.
type Device struct {
	driver           device.Device
	info             device.Info
	rates            machine.DeviceRates
	prices           *machine.Profile
	upload, download graph.Impl

	mu      sync.Mutex // of driver and kernels
	kernels map[[sha256.Size]byte]*sharedKernel
}

// New returns a device with estimated prices.
func New(d device.Device) *Device {
	b := &Device{driver: d, info: d.Info(), rates: estimatedRates(d.Info()),
		kernels: map[[sha256.Size]byte]*sharedKernel{}}
	b.prices = b.rates.Profile()
	b.upload = graph.Impl{Name: "upload", Doc: "Copies from the host to the device.", Place: tensor.Device,
		Walks: transferWalks, Read: readsSameLayout, Work: transferWork(machine.DeviceUpload), Lower: lowerUpload}
	b.download = graph.Impl{Name: "download", Doc: "Copies from the device to the host.", Source: tensor.Device,
		Walks: transferWalks, Read: readsSameLayout, Work: transferWork(machine.DeviceDownload), Lower: lowerDownload}
	return b
}

// First returns the first device of a list, and closes the others.
func First(list []device.Device, err error) (graph.Device, error) {
	for k := 1; k < len(list); k++ {
		list[k].Close()
	}
	if len(list) == 0 {
		return nil, cmp.Or(err, errors.New("the driver has no device"))
	}
	return New(list[0]), nil
}

// Name implements graph.Device.
func (d *Device) Name() string { return d.info.Driver }

// Describe implements graph.Device.
func (d *Device) Describe() string {
	return fmt.Sprintf("%s (%s, %s)", d.info.Name, d.info.Driver, d.info.Kind)
}

// Key implements graph.Device.
func (d *Device) Key() string { return fmt.Sprintf("%+v", d.info) }

// Inexact implements graph.Device. Operations that the device does not round correctly are computed by others, or on
// the host: see package lower. Sums and products cannot be replaced.
func (d *Device) Inexact() string {
	var list []string
	if !d.info.Promise.Exact32 {
		list = append(list, "sums and products of float32")
	}
	if d.info.Promise.Float64 && !d.info.Promise.Exact64 {
		list = append(list, "sums and products of float64")
	}
	return strings.Join(list, ", ")
}

// Upload implements graph.Device.
func (d *Device) Upload() *graph.Impl { return &d.upload }

// Download implements graph.Device.
func (d *Device) Download() *graph.Impl { return &d.download }

// Rates implements graph.Device.
func (d *Device) Rates() machine.DeviceRates { return d.rates }

// Prices implements graph.Device.
func (d *Device) Prices() *machine.Profile { return d.prices }

// memory implements graph.DeviceMemory.
type memory struct {
	d      *Device
	buffer *device.Buffer
}

// Free implements graph.DeviceMemory.
func (m *memory) Free() {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if m.buffer != nil {
		m.buffer.Free()
		m.buffer = nil
	}
}

// Alloc implements graph.Device.
func (d *Device) Alloc(bytes int) (graph.DeviceMemory, error) {
	b, err := d.alloc(bytes, false)
	if err != nil {
		return nil, err
	}
	return &memory{d, b}, nil
}

func (d *Device) alloc(bytes int, host bool) (*device.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := d.driver.Alloc(max(bytes, 1), host)
	if err != nil {
		return nil, fmt.Errorf("%s of memory on %s: %w", machine.Bytes(bytes), d.Describe(), err)
	}
	return b, nil
}

// compiled is a program whose kernels are compiled.
type compiled struct {
	launches []launch
	scratch  int   // see lower.Program
	fault    error // of a run that sets the fault word; nil if the program does not write the word
	sizes    []int // of an element, by result and then by operand
}

// launch is a launch with its compiled kernel.
type launch struct {
	lower.Launch
	kernel *sharedKernel
}

// sharedKernel is the compiled kernel of all launches with the same code.
type sharedKernel struct {
	device.Kernel
	digest [sha256.Size]byte
	users  int
}

// compile compiles the kernels of a program. They are freed when the compiled programs with them are unreachable.
func (d *Device) compile(p *lower.Program) (*compiled, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &compiled{scratch: p.Scratch}
	for _, l := range p.Launches {
		digest := l.Kernel.Digest()
		k := d.kernels[digest]
		if k == nil {
			one, err := d.driver.Compile(l.Kernel)
			if err != nil {
				d.release(c.launches)
				return nil, err
			}
			k = &sharedKernel{Kernel: one, digest: digest}
			d.kernels[digest] = k
		}
		k.users++
		l.Kernel = nil
		c.launches = append(c.launches, launch{l, k})
	}
	runtime.AddCleanup(c, func(list []launch) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.release(list)
	}, c.launches)
	return c, nil
}

// release frees the kernels of launches that have no other users.
func (d *Device) release(list []launch) {
	for _, l := range list {
		if l.kernel.users--; l.kernel.users == 0 {
			delete(d.kernels, l.kernel.digest)
			l.kernel.Free()
		}
	}
}
