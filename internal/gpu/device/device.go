// Package device is the interface between the drivers (Vulkan, CUDA) and the rest of the program. A [Device] allocates
// memory, compiles kernels of package internal/gpu/ir, and runs them.
package device

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/gpu/lower"
)

// Info describes a device.
type Info struct {
	Name   string
	Driver string // vulkan or cuda
	Kind   string // discrete, integrated, processor or other
	Memory int    // size of the device's memory in bytes
	// Float16 is set if the device can compute with float16. Kernels do not use this: they convert float16 to float32.
	Float16  bool
	ExactOps conform.ExactOps // the operations that the device computes exactly
}

// Buffer is memory that a device accesses.
type Buffer struct {
	Address uint64 // the address for kernels
	Bytes   []byte // the same memory for the host; nil if the host cannot access it
	Size    int    // in bytes
	Free    func() // releases the memory
}

// Kernel is a kernel that is compiled for a device.
type Kernel interface{ Free() }

// Step is a launch of a kernel, or a copy between buffers if Kernel is nil.
type Step struct {
	Kernel    Kernel
	Groups    int      // the number of groups of threads
	Addresses []uint64 // the arguments for the parameters of the kernel

	// A copy copies Bytes bytes from offset FromOffset of buffer From to offset ToOffset of buffer To.
	To, From             *Buffer
	ToOffset, FromOffset int
	Bytes                int
}

// CopyFits reports whether a copy has at least one byte and stays within both buffers.
func (s *Step) CopyFits() bool {
	fits := func(buffer *Buffer, start int) bool {
		return buffer != nil && start >= 0 && s.Bytes <= buffer.Size-start
	}
	return s.Bytes > 0 && fits(s.To, s.ToOffset) && fits(s.From, s.FromOffset)
}

// Device is an open device. Its methods must not be called concurrently.
type Device interface {
	Info() Info
	// Alloc returns a buffer of at least 1 byte. Its address is a multiple of 16. If hostAccess is true, the host can
	// access the buffer, too.
	Alloc(bytes int, hostAccess bool) (*Buffer, error)
	Compile(kernel *ir.Kernel) (Kernel, error)
	// Run runs steps in order, and waits until they have finished. Afterwards, the host sees the bytes that the steps
	// wrote.
	Run(steps []Step) error
	Close()
}

// RunOn returns a function that runs programs on a device, for tests. operands[i] is the memory of buffer i of the
// program. The results come first, and then the operands. The function copies this memory to buffers that the host can
// access, runs the launches, and copies the buffers back. It returns a fault of the program as an error.
func RunOn(device Device) conform.Run {
	return func(program *lower.Program, operands [][]byte) error {
		run := &programRun{Device: device}
		defer run.release()
		return run.run(program, operands)
	}
}

// programRun is a run of [RunOn].
type programRun struct {
	Device
	releases []func() // release the memory and the kernels
	allocErr error    // the first error of Alloc
}

func (r *programRun) release() {
	for _, release := range r.releases {
		release()
	}
}

// alloc returns a buffer that the host can access. After an error it returns nil.
func (r *programRun) alloc(bytes int) *Buffer {
	if r.allocErr != nil {
		return nil
	}
	const hostAccess = true
	buffer, err := r.Alloc(max(bytes, 1), hostAccess)
	if r.allocErr = err; err == nil {
		r.releases = append(r.releases, buffer.Free)
	}
	return buffer
}

func (r *programRun) run(program *lower.Program, operands [][]byte) error {
	const wordBytes = 4 // of the fault word
	scratch, faultWord := r.alloc(program.Scratch), r.alloc(wordBytes)
	var buffers []*Buffer
	for _, mem := range operands {
		buffers = append(buffers, r.alloc(len(mem)))
	}
	if r.allocErr != nil {
		return r.allocErr
	}
	var addresses []uint64
	for i, buffer := range buffers {
		copy(buffer.Bytes, operands[i])
		addresses = append(addresses, buffer.Address)
	}
	clear(faultWord.Bytes[:wordBytes])
	var steps []Step
	for _, launch := range program.Launches {
		kernel, err := r.Compile(launch.Kernel)
		if err != nil {
			return fmt.Errorf("%w\n%v", err, launch.Kernel) // add the listing of the kernel
		}
		r.releases = append(r.releases, kernel.Free)
		steps = append(steps, Step{Kernel: kernel, Groups: launch.Groups,
			Addresses: launch.Bind(addresses, scratch.Address, faultWord.Address)})
	}
	if err := r.Run(steps); err != nil {
		return err
	}
	for i, mem := range operands {
		copy(mem, buffers[i].Bytes)
	}
	return conform.FaultOf(program, faultWord.Bytes)
}

// maxGrid is the maximum number of groups in one dimension of a launch that every device supports.
const maxGrid = 65535

// Grid returns the numbers of groups in the two dimensions of a launch. x*y is at least `groups`. groups must be at
// least 1.
func Grid(groups int) (x, y int) {
	x = min(groups, maxGrid)
	return x, (groups + x - 1) / x
}
