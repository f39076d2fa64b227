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

// queue implements graph.Queue. It collects steps. The driver runs the collected steps (flush) when a download needs a
// result or Wait is called. The driver also runs them when maxSteps steps are collected, or when more than maxStaged
// bytes of staging memory are in use.
//
// Staging memory is memory that the host and the device access. An upload copies its bytes from the host to staging
// memory, and collects a step that copies them from staging memory to the target. A download does the reverse. For
// example, an upload of 20 MiB, a launch and a download of 4 bytes collect these steps:
//
//	copy 16 MiB     from staging memory to the device
//	copy 4 MiB      from staging memory to the device
//	launch          a kernel
//	copy 4 bytes    from the device to staging memory; then the driver runs all four steps
type queue struct {
	owner   *Device
	mu      sync.Mutex
	steps   []device.Step // the collected steps
	staging *staging
	faults  []fault // of the collected steps
	err     error   // the error of the first failed step; all later steps fail, too, because they may read its results
}

// NewQueue implements graph.Device.
func (d *Device) NewQueue() graph.Queue {
	created := &queue{owner: d, staging: &staging{owner: d}}
	runtime.AddCleanup(created, (*staging).close, created.staging)
	return created
}

// fault has a word in staging memory, which a collected step sets if it fails, and the error to report in this case.
type fault struct {
	word []byte
	err  error
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
	target, ok := to.Memory.(*memory)
	if !ok || target.owner != q.owner {
		return errOtherMemory
	}
	for start := 0; start < len(from); start += pieceBytes {
		piece := from[start:min(start+pieceBytes, len(from))]
		staged, offset, err := q.stage(len(piece))
		if err != nil {
			return err
		}
		copy(staged.Bytes[offset:], piece)
		q.steps = append(q.steps, device.Step{To: target.buffer, ToOffset: to.Offset + start, From: staged,
			FromOffset: offset, Bytes: len(piece)})
	}
	return nil
}

// stage returns a staging buffer, and the offset of the requested bytes in it. If this would exceed maxStaged bytes, it
// runs the collected steps first.
func (q *queue) stage(bytes int) (*device.Buffer, int, error) {
	if q.staging.bytes+bytes > maxStaged {
		if err := q.flush(); err != nil {
			return nil, 0, err
		}
	}
	return q.staging.take(bytes)
}

// download copies bytes from the device. It waits for all earlier steps.
func (q *queue) download(to []byte, from graph.DeviceAddress) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	source, ok := from.Memory.(*memory)
	if !ok || source.owner != q.owner {
		return errOtherMemory
	}
	for start := 0; start < len(to); start += pieceBytes {
		piece := to[start:min(start+pieceBytes, len(to))]
		staged, offset, err := q.stage(len(piece))
		if err != nil {
			return err
		}
		q.steps = append(q.steps, device.Step{To: staged, ToOffset: offset, From: source.buffer,
			FromOffset: from.Offset + start, Bytes: len(piece)})
		if err := q.flush(); err != nil {
			return err
		}
		copy(piece, staged.Bytes[offset:])
	}
	return nil
}

// launch adds the launches of a program. operands has the addresses of results and operands, followed by the address of
// the scratch memory. An operand with a single element may be on the host. If operand i is on the host, operands[i] has
// no memory, and host[i] is the address of the operand.
func (q *queue) launch(program *compiled, operands []graph.DeviceAddress, host []unsafe.Pointer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	addresses, err := q.operandAddresses(program, operands, host)
	if err != nil {
		return err
	}
	var scratch, faultWord uint64
	if program.scratch > 0 {
		scratch = addresses[len(program.elemBytes)] // elemBytes has an entry for each result and operand
	}
	if program.fault != nil {
		if faultWord, err = q.stageFault(program.fault); err != nil {
			return err
		}
	}
	for _, launched := range program.launches {
		q.steps = append(q.steps, device.Step{Kernel: launched.kernel.Kernel, Groups: launched.Groups,
			Addresses: launched.Bind(addresses, scratch, faultWord)})
	}
	q.staging.retain(program)
	if len(q.steps) >= maxSteps {
		return q.flush()
	}
	return nil
}

// operandAddresses returns the addresses of operands on the device. It copies operands on the host to staging memory.
// The arguments are the arguments of launch.
func (q *queue) operandAddresses(program *compiled, operands []graph.DeviceAddress, host []unsafe.Pointer) ([]uint64,
	error) {
	addresses := make([]uint64, len(operands))
	for i, operand := range operands {
		switch onDevice, ok := operand.Memory.(*memory); {
		case ok && onDevice.owner == q.owner:
			addresses[i] = onDevice.buffer.Address + uint64(operand.Offset)
		case operand.Memory != nil:
			return nil, errOtherMemory
		case host[i] != nil: // if host[i] is nil, argument i was omitted or is not a tensor
			bytes, address, err := q.stageWord(program.elemBytes[i])
			if err != nil {
				return nil, err
			}
			copy(bytes, unsafe.Slice((*byte)(host[i]), program.elemBytes[i]))
			addresses[i] = address
		}
	}
	return addresses, nil
}

// stageFault adds a fault with the error err, and returns the address of the fault's word.
func (q *queue) stageFault(err error) (uint64, error) {
	const wordBytes = 4
	word, address, stageErr := q.stageWord(wordBytes)
	if stageErr != nil {
		return 0, stageErr
	}
	clear(word)
	q.faults = append(q.faults, fault{word: word, err: err})
	return address, nil
}

// stageWord returns staging memory of a few bytes for a launch, and its address. Unlike stage, it never runs the
// collected steps, because that would free the memory that was staged for earlier operands of the same launch.
func (q *queue) stageWord(size int) ([]byte, uint64, error) {
	buffer, offset, err := q.staging.take(size)
	if err != nil {
		return nil, 0, err
	}
	return buffer.Bytes[offset:][:size], buffer.Address + uint64(offset), nil
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

// flush runs the collected steps, or drops them after an error. It returns the error of the first failed step since
// Reset. The lock must be held.
func (q *queue) flush() error {
	if q.err == nil && len(q.steps) > 0 {
		q.owner.mu.Lock()
		q.err = q.owner.driver.Run(q.steps)
		q.owner.mu.Unlock()
		for _, collected := range q.faults {
			if q.err == nil && binary.LittleEndian.Uint32(collected.word) != 0 {
				q.err = collected.err
			}
		}
	}
	q.clear()
	return q.err
}

// clear drops the collected steps, and frees their staging memory for reuse.
func (q *queue) clear() {
	clear(q.steps)
	clear(q.faults)
	q.steps, q.faults = q.steps[:0], q.faults[:0]
	q.staging.reuse()
}

var errOtherMemory = errors.New("the memory is not of this device")

// staging has the staging buffers of a queue, and keeps the programs of collected steps reachable.
type staging struct {
	owner      *Device
	used, free []*device.Buffer // the buffers that collected steps use, and all other buffers
	offset     int              // offset of the free bytes in the last used buffer
	bytes      int              // total size of the used buffers
	programs   []*compiled      // the programs of collected steps
}

// stagingAlign is the alignment of staging memory in bytes.
const stagingAlign = 64

// take returns a buffer with at least the given number of free bytes, and the offset of these bytes. It uses the last
// used buffer or, if this buffer is too small, the smallest free buffer that is large enough, otherwise a new buffer.
func (s *staging) take(bytes int) (*device.Buffer, int, error) {
	if count := len(s.used); count > 0 && s.offset+bytes <= s.used[count-1].Size {
		start := s.offset
		s.offset += (bytes + stagingAlign - 1) &^ (stagingAlign - 1)
		return s.used[count-1], start, nil
	}
	buffer := s.takeFree(bytes)
	if buffer == nil {
		var err error
		if buffer, err = s.owner.alloc(max(bytes, pageBytes), true /* host access */); err != nil {
			return nil, 0, err
		}
	}
	s.used, s.bytes = append(s.used, buffer), s.bytes+buffer.Size
	s.offset = (bytes + stagingAlign - 1) &^ (stagingAlign - 1)
	return buffer, 0, nil
}

// takeFree removes the smallest buffer of at least the given size from the free buffers, and returns it. It returns nil
// if there is none.
func (s *staging) takeFree(bytes int) *device.Buffer {
	smallest := -1
	for index, buffer := range s.free {
		if buffer.Size >= bytes && (smallest < 0 || buffer.Size < s.free[smallest].Size) {
			smallest = index
		}
	}
	if smallest < 0 {
		return nil
	}
	buffer := s.free[smallest]
	s.free = append(s.free[:smallest], s.free[smallest+1:]...)
	return buffer
}

// retain keeps a program reachable until the collected steps have run, because its kernels are freed when it is
// unreachable.
func (s *staging) retain(program *compiled) { s.programs = append(s.programs, program) }

// reuse marks all buffers as free. It is called after the steps that use the buffers.
func (s *staging) reuse() {
	s.free = append(s.free, s.used...)
	clear(s.programs)
	s.used, s.programs, s.offset, s.bytes = s.used[:0], s.programs[:0], 0, 0
}

// close frees the buffers. It is called when the queue is unreachable.
func (s *staging) close() {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	for _, buffer := range append(s.free, s.used...) {
		buffer.Free()
	}
}
