// Package backend runs nodes of graphs on devices (GPUs). It implements graph.Device with the device of a driver.
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
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// Device implements graph.Device.
type Device struct {
	driver           device.Device
	info             device.Info
	rates            pricing.DeviceRates
	prices           *pricing.Profile // the rates as a cost profile
	upload, download graph.Impl       // the implementations of transfers between host and device

	mu      sync.Mutex                          // guards driver and kernels
	kernels map[[sha256.Size]byte]*sharedKernel // by digest of the code: the kernels that are in use
}

// New returns a Device for an open device of a driver. Its prices are estimates.
func New(driver device.Device) *Device {
	created := &Device{driver: driver, info: driver.Info(), rates: estimatedRates(driver.Info()),
		kernels: map[[sha256.Size]byte]*sharedKernel{}}
	created.prices = created.rates.Profile()
	created.upload = graph.Impl{Name: "upload", Doc: "Copies from the host to the device.", ResultPlace: tensor.Device,
		Walks: transferWalks, Read: readsSameLayout, Work: transferWork(pricing.DeviceUpload), Lower: lowerUpload}
	created.download = graph.Impl{Name: "download", Doc: "Copies from the device to the host.",
		OperandPlace: tensor.Device, Walks: transferWalks, Read: readsSameLayout, Work: transferWork(pricing.DeviceDownload),
		Lower: lowerDownload}
	return created
}

// First returns the first device that a driver has opened, and closes the other devices. err is the error of opening
// devices. First returns err if the list is empty, and ignores it otherwise.
func First(list []device.Device, err error) (graph.Device, error) {
	if len(list) == 0 {
		return nil, cmp.Or(err, errors.New("the driver has no device"))
	}
	for _, unused := range list[1:] {
		unused.Close()
	}
	return New(list[0]), nil
}

// Name implements graph.Device.
func (d *Device) Name() string { return d.info.Driver }

// Describe implements graph.Device.
func (d *Device) Describe() string {
	return fmt.Sprintf("%s (%s, %s)", d.info.Name, d.info.Driver, d.info.Kind)
}

// Key implements graph.Device. The fields of device.Info determine the kernels and the bits of their results.
func (d *Device) Key() string { return fmt.Sprintf("%+v", d.info) }

// Inexact implements graph.Device. It lists sums and products only: package lower replaces other operations that the
// device does not round correctly, or rejects them.
func (d *Device) Inexact() string {
	var list []string
	if !d.info.ExactOps.Exact32 {
		list = append(list, "sums and products of float32")
	}
	if d.info.ExactOps.Float64 && !d.info.ExactOps.Exact64 {
		list = append(list, "sums and products of float64")
	}
	return strings.Join(list, ", ")
}

// Upload implements graph.Device.
func (d *Device) Upload() *graph.Impl { return &d.upload }

// Download implements graph.Device.
func (d *Device) Download() *graph.Impl { return &d.download }

// Rates implements graph.Device.
func (d *Device) Rates() pricing.DeviceRates { return d.rates }

// Prices implements graph.Device.
func (d *Device) Prices() *pricing.Profile { return d.prices }

// Memory implements graph.Device.
func (d *Device) Memory() int { return d.info.Memory }

// memory implements graph.DeviceMemory.
type memory struct {
	owner  *Device
	buffer *device.Buffer
}

// Free implements graph.DeviceMemory.
func (m *memory) Free() {
	m.owner.mu.Lock()
	defer m.owner.mu.Unlock()
	if m.buffer != nil {
		m.buffer.Free()
		m.buffer = nil
	}
}

// Alloc implements graph.Device.
func (d *Device) Alloc(bytes int) (graph.DeviceMemory, error) {
	const hostAccess = false
	buffer, err := d.alloc(bytes, hostAccess)
	if err != nil {
		return nil, err
	}
	return &memory{d, buffer}, nil
}

// alloc returns a buffer of the driver. If hostAccess is true, the host can access the buffer, too.
func (d *Device) alloc(bytes int, hostAccess bool) (*device.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	buffer, err := d.driver.Alloc(max(bytes, 1), hostAccess)
	if err != nil {
		return nil, fmt.Errorf("%s of memory on %s: %w", machine.Bytes(bytes), d.Describe(), err)
	}
	return buffer, nil
}

// compiled is a lower.Program whose kernels are compiled.
type compiled struct {
	launches  []launch
	scratch   int   // bytes of scratch memory
	fault     error // the error of a run that sets the fault word; nil if the program does not write the word
	elemBytes []int // the bytes of an element of each result, then of each operand
}

// launch is a lower.Launch with a compiled kernel in place of the source kernel (the field Kernel).
type launch struct {
	lower.Launch
	kernel *sharedKernel
}

// sharedKernel is the compiled kernel of all launches with the same code.
type sharedKernel struct {
	device.Kernel
	digest [sha256.Size]byte
	users  int // number of launches of compiled programs
}

// compile compiles the kernels of a program. A kernel is freed when all compiled programs that use the kernel are
// unreachable.
func (d *Device) compile(lowered *lower.Program) (*compiled, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	program := &compiled{scratch: lowered.Scratch}
	for _, source := range lowered.Launches {
		digest := source.Kernel.Digest()
		kernel := d.kernels[digest]
		if kernel == nil {
			driverKernel, err := d.driver.Compile(source.Kernel)
			if err != nil {
				d.release(program.launches)
				return nil, err
			}
			kernel = &sharedKernel{Kernel: driverKernel, digest: digest}
			d.kernels[digest] = kernel
		}
		kernel.users++
		source.Kernel = nil // the launch does not need the source kernel; lowered keeps it, because source is a copy
		program.launches = append(program.launches, launch{source, kernel})
	}
	// The cleanup runs in another goroutine, so it may wait for the lock.
	runtime.AddCleanup(program, func(list []launch) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.release(list)
	}, program.launches)
	return program, nil
}

// release ends the use of kernels by launches, and frees the kernels without users. The lock must be held.
func (d *Device) release(list []launch) {
	for _, freed := range list {
		if freed.kernel.users--; freed.kernel.users == 0 {
			delete(d.kernels, freed.kernel.digest)
			freed.kernel.Free()
		}
	}
}
