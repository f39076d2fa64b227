package backend

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/device"
)

// NewQueue implements graph.Device.
func (d *Device) NewQueue() graph.Queue {
	q := &queue{d: d, staging: &staging{d: d}}
	runtime.AddCleanup(q, (*staging).close, q.staging)
	return q
}

// queue implements graph.Queue. It collects steps, and the driver runs them when a download needs a result, or when
// maxStaged bytes are staged.
type queue struct {
	d       *Device
	mu      sync.Mutex
	steps   []device.Step
	staging *staging
	faults  []fault
	err     error // of the first step that failed; later steps may read its results
}

const (
	// maxStaged is the maximum number of bytes in staging buffers before the collected steps run.
	maxStaged = 64 << 20
	// pieceBytes is the maximum size of one copy.
	pieceBytes = 16 << 20
	// pageBytes is the minimum size of a staging buffer.
	pageBytes = 64 << 10
	// maxSteps is the maximum number of collected steps.
	maxSteps = 4096
)

// Upload implements graph.Queue.
func (q *queue) Upload(to graph.DeviceAddress, from []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m, ok := to.Memory.(*memory)
	if !ok || m.d != q.d {
		return errOtherMemory
	}
	for at := 0; at < len(from); at += pieceBytes {
		piece := from[at:min(at+pieceBytes, len(from))]
		b, offset, err := q.stage(len(piece))
		if err != nil {
			return err
		}
		copy(b.Bytes[offset:], piece)
		q.steps = append(q.steps, device.Step{To: m.buffer, ToAt: to.Offset + at, From: b, FromAt: offset,
			Bytes: len(piece)})
	}
	return nil
}

// download copies bytes from the device. It waits for all earlier steps.
func (q *queue) download(to []byte, from graph.DeviceAddress) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m, ok := from.Memory.(*memory)
	if !ok || m.d != q.d {
		return errOtherMemory
	}
	for at := 0; at < len(to); at += pieceBytes {
		piece := to[at:min(at+pieceBytes, len(to))]
		b, offset, err := q.stage(len(piece))
		if err != nil {
			return err
		}
		q.steps = append(q.steps, device.Step{To: b, ToAt: offset, From: m.buffer, FromAt: from.Offset + at,
			Bytes: len(piece)})
		if err := q.flush(); err != nil {
			return err
		}
		copy(piece, b.Bytes[offset:])
	}
	return nil
}

// fault is a word that a collected step sets if it fails.
type fault struct {
	word []byte
	err  error
}

// launch adds the launches of a program. host has, by result and operand, the address of an operand with one element on
// the host. The address of scratch memory follows those of operands.
func (q *queue) launch(c *compiled, operands []graph.DeviceAddress, host []unsafe.Pointer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	addresses := make([]uint64, len(operands))
	for i, a := range operands {
		switch m, ok := a.Memory.(*memory); {
		case ok && m.d == q.d:
			addresses[i] = m.buffer.Address + uint64(a.Offset)
		case a.Memory != nil:
			return errOtherMemory
		case host[i] != nil:
			bytes, address, err := q.stageWord(c.sizes[i])
			if err != nil {
				return err
			}
			copy(bytes, unsafe.Slice((*byte)(host[i]), c.sizes[i]))
			addresses[i] = address
		}
	}
	var scratch, word uint64
	if c.scratch > 0 {
		scratch = addresses[len(c.sizes)]
	}
	if c.fault != nil {
		bytes, address, err := q.stageWord(4)
		if err != nil {
			return err
		}
		clear(bytes)
		word, q.faults = address, append(q.faults, fault{bytes, c.fault})
	}
	for _, l := range c.launches {
		q.steps = append(q.steps, device.Step{Kernel: l.kernel.Kernel, Groups: l.Groups,
			Addresses: l.Bind(addresses, scratch, word)})
	}
	q.staging.keep(c)
	if len(q.steps) >= maxSteps {
		return q.flush()
	}
	return nil
}

// stageWord returns memory for a few bytes of a launch, and its address. Unlike stage it never runs the collected
// steps: the memory of earlier operands of the launch could then be reused.
func (q *queue) stageWord(size int) ([]byte, uint64, error) {
	b, offset, err := q.staging.take(size)
	if err != nil {
		return nil, 0, err
	}
	return b.Bytes[offset:][:size], b.Address + uint64(offset), nil
}

// Wait implements graph.Queue.
func (q *queue) Wait() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.flush()
}

// Reset implements graph.Queue.
func (q *queue) Reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.clear()
	q.err = nil
}

// flush runs the collected steps, or drops them after an error.
func (q *queue) flush() error {
	if q.err == nil && len(q.steps) > 0 {
		q.d.mu.Lock()
		q.err = q.d.driver.Run(q.steps)
		q.d.mu.Unlock()
		for _, f := range q.faults {
			if q.err == nil && binary.LittleEndian.Uint32(f.word) != 0 {
				q.err = f.err
			}
		}
	}
	q.clear()
	return q.err
}

func (q *queue) clear() {
	clear(q.steps)
	clear(q.faults)
	q.steps, q.faults = q.steps[:0], q.faults[:0]
	q.staging.reuse()
}

// stage returns memory that the host and the device access. It runs the collected steps first if much memory is in use.
func (q *queue) stage(bytes int) (*device.Buffer, int, error) {
	if q.staging.bytes+bytes > maxStaged {
		if err := q.flush(); err != nil {
			return nil, 0, err
		}
	}
	return q.staging.take(bytes)
}

var errOtherMemory = errors.New("the memory is not of this device")

// staging has the buffers of a queue that the host and the device access, and what collected steps use.
type staging struct {
	d          *Device
	used, free []*device.Buffer
	offset     int // of the free memory in the last buffer of used
	bytes      int // in buffers of used
	kept       []*compiled
}

// stagingAlign is the alignment of staged memory.
const stagingAlign = 64

// take returns memory of a buffer.
func (s *staging) take(bytes int) (*device.Buffer, int, error) {
	if n := len(s.used); n > 0 && s.offset+bytes <= s.used[n-1].Size {
		at := s.offset
		s.offset += (bytes + stagingAlign - 1) &^ (stagingAlign - 1)
		return s.used[n-1], at, nil
	}
	best := -1
	for k, b := range s.free {
		if b.Size >= bytes && (best < 0 || b.Size < s.free[best].Size) {
			best = k
		}
	}
	var b *device.Buffer
	if best >= 0 {
		b = s.free[best]
		s.free = append(s.free[:best], s.free[best+1:]...)
	} else {
		var err error
		if b, err = s.d.alloc(max(bytes, pageBytes), true); err != nil {
			return nil, 0, err
		}
	}
	s.used, s.bytes = append(s.used, b), s.bytes+b.Size
	s.offset = (bytes + stagingAlign - 1) &^ (stagingAlign - 1)
	return b, 0, nil
}

// keep keeps compiled kernels until the collected steps have run.
func (s *staging) keep(c *compiled) { s.kept = append(s.kept, c) }

// reuse makes all buffers free, after the steps that use them.
func (s *staging) reuse() {
	s.free = append(s.free, s.used...)
	clear(s.kept)
	s.used, s.kept, s.offset, s.bytes = s.used[:0], s.kept[:0], 0, 0
}

// close frees the buffers.
func (s *staging) close() {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	for _, b := range append(s.free, s.used...) {
		b.Free()
	}
}
