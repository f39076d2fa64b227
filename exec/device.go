package exec

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs steps on a device. A kernel on a device has one chunk, which adds a launch to the queue of the session
// and returns before the device has run it. The queue keeps the order of the launches, so that steps on the device wait
// for each other like steps on the host. A download waits until the device has run all earlier steps.

// usesDevice reports whether a node of a graph runs on a device.
func usesDevice(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Impl.OnDevice() })
}

// setDevice sets the device of a program that has nodes on a device.
func (p *Program) setDevice(d graph.Device) error {
	if !usesDevice(p.graph) {
		return nil
	}
	if p.device = d; d == nil {
		return errors.New("a node is planned for a device, and the program has none")
	}
	return nil
}

// deviceConstants are the constants of a program on the device.
type deviceConstants struct {
	storages []int // indices of Program.storages
	bytes    int

	mu     sync.Mutex
	memory graph.DeviceMemory // nil before the first upload
}

// addUploaded makes the result of a node that uploads a constant a constant of the program.
func (p *Program) addUploaded(n *graph.Node) {
	u, k := &p.uploaded, p.storageOf(n.Out[0])
	s, from := &p.storages[k], n.In[0].Value
	s.kind, s.arenaOffset = inConst, u.bytes
	s.data = tensor.Must(from.Root().Const.View(from.Meta))
	u.storages = append(u.storages, k)
	u.bytes += (s.bytes + tensor.Align - 1) &^ (tensor.Align - 1)
}

// upload uploads the constants at the first call. They are freed when the program is unreachable.
func (p *Program) upload() (graph.DeviceMemory, error) {
	u := &p.uploaded
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.memory != nil || u.bytes == 0 {
		return u.memory, nil
	}
	memory, err := p.device.Alloc(u.bytes)
	if err != nil {
		return nil, err
	}
	if err := p.uploadTo(memory); err != nil {
		memory.Free()
		return nil, err
	}
	runtime.AddCleanup(p, graph.DeviceMemory.Free, memory)
	u.memory = memory
	return memory, nil
}

// uploadTo copies the constants to memory of the device.
func (p *Program) uploadTo(memory graph.DeviceMemory) error {
	q := p.device.NewQueue()
	for _, k := range p.uploaded.storages {
		s := &p.storages[k]
		if s.bytes == 0 {
			continue
		}
		from := unsafe.Slice((*byte)(s.data.Pointer()), s.bytes)
		if err := q.Upload(graph.DeviceAddress{Memory: memory, Offset: s.arenaOffset}, from); err != nil {
			return err
		}
	}
	return q.Wait()
}

// deviceSession is the memory of a session on the device.
type deviceSession struct {
	queue     graph.Queue
	addresses []graph.DeviceAddress // indexed like Session.ptrs
	arena     graph.DeviceMemory    // nil if it is empty
}

// openDevice allocates the memory of a session on the device. The memory is freed when the session is garbage.
func (s *Session) openDevice() error {
	p := s.program
	constants, err := p.upload()
	if err != nil {
		return err
	}
	d := &deviceSession{queue: p.device.NewQueue(), addresses: make([]graph.DeviceAddress, p.pointerCount)}
	if p.deviceArena > 0 {
		if d.arena, err = p.device.Alloc(p.deviceArena); err != nil {
			return err
		}
		runtime.AddCleanup(d, graph.DeviceMemory.Free, d.arena)
	}
	for i := range p.steps {
		st := &p.steps[i]
		for k, r := range st.refs {
			if r.storage < 0 || p.storages[r.storage].place == tensor.Host {
				continue
			}
			storage := &p.storages[r.storage]
			a := graph.DeviceAddress{Memory: d.arena, Offset: storage.arenaOffset + r.offset}
			if storage.kind == inConst {
				a.Memory = constants
			}
			d.addresses[st.firstPtr+k] = a
		}
		if st.hasDeviceScratch() {
			d.addresses[st.firstPtr+len(st.refs)] = graph.DeviceAddress{Memory: d.arena, Offset: st.scratch}
		}
	}
	for i := range s.workers {
		s.workers[i].mem.Queue = d.queue
	}
	s.device = d
	return nil
}

// freeDevice frees the memory of the session on the device. The next run opens the device again.
func (s *Session) freeDevice() {
	if s.device != nil && s.device.arena != nil {
		s.device.arena.Free()
	}
	s.device = nil
}

// hasDeviceScratch reports whether the kernel of a step has scratch memory on the device, whose address follows those
// of the operands.
func (st *step) hasDeviceScratch() bool {
	return st.kernel.Scratch > 0 && st.kernel.Place != tensor.Host
}

// of returns the addresses of a step on the device.
func (d *deviceSession) of(st *step) []graph.DeviceAddress {
	n := len(st.refs)
	if st.hasDeviceScratch() {
		n++
	}
	return d.addresses[st.firstPtr : st.firstPtr+n]
}
