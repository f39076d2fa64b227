package exec

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"unsafe"
	"weak"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs steps on a device. The kernel of such a step has one chunk, which adds a launch to the queue of the
// session. The chunk returns before the device has executed the launch. The queue keeps the order of the launches, so
// that a step on the device runs after the earlier steps on the device. A download waits until the device has run all
// earlier steps.
//
// Memory on the device has two lifetimes. Constants are uploaded once for all programs that share an [Uploads]
// ([Program.upload]). The arena belongs to a session ([Session.openDevice]).

// usesDevice reports whether a node of a graph runs on a device.
func usesDevice(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Impl.OnDevice() })
}

// setDevice sets the device of a program that has nodes on a device.
func (p *Program) setDevice(device graph.Device) error {
	if !usesDevice(p.graph) {
		return nil
	}
	p.device = device
	if device == nil {
		return errors.New("a node is planned for a device, but Options.Device is nil")
	}
	return nil
}

// CheckDevice returns a [*MemoryError] if the arena and the constants on the device exceed its memory. Compile calls it
// unless [Options.MemoryLimit] is negative.
func (p *Program) CheckDevice() error {
	if p.device == nil || p.device.Memory() == 0 { // 0: the size of the memory is unknown
		return nil
	}
	need := p.deviceNeed()
	if memory := p.device.Memory(); need.Total() > memory {
		return &MemoryError{Need: need, Left: memory, Limit: memory, From: "the memory of the device " + p.device.Describe()}
	}
	return nil
}

// deviceNeed returns the memory that a run needs on the device.
func (p *Program) deviceNeed() Need {
	need, counted := Need{}, map[constantData]bool{}
	need.Arena = p.deviceArenaSize
	for _, storageIndex := range p.uploaded.storages {
		constant := &p.storages[storageIndex]
		if key := constant.constantData(); !counted[key] {
			counted[key] = true
			need.Constants = sum(need.Constants, constant.bytes)
			need.addHolding("constant", constant.root, constant.bytes)
		}
	}
	return need
}

// constantData returns the key of a constant in [Uploads].
func (s *storage) constantData() constantData {
	return constantData{uintptr(s.data.Pointer()), s.bytes}
}

// Uploads has the constants that programs have uploaded to one device. Programs that share an Uploads upload each
// constant once. A block of constants is freed when no program that reads one of them is reachable. The zero value is
// ready for use.
type Uploads struct {
	mu        sync.Mutex
	positions map[constantData]uploadedPosition
}

// constantData identifies a constant by its bytes in host memory. An uploadedBlock keeps these bytes alive, so that
// no other data get the same address.
type constantData struct {
	address uintptr
	bytes   int
}

// uploadedBlock is memory on a device with the constants that one program uploaded.
type uploadedBlock struct {
	memory graph.DeviceMemory
	data   []*tensor.Tensor // the constants in host memory, in the order of their offsets
}

// uploadedPosition is the position of a constant on the device: its block, if the block still exists, and its offset
// in the block in bytes.
type uploadedPosition struct {
	block  weak.Pointer[uploadedBlock]
	offset int
}

// deviceConstants are the constants of a program on the device.
type deviceConstants struct {
	storages []int // indices of Program.storages; a storage is the memory of a value and of its views

	mu        sync.Mutex
	addresses map[int]graph.DeviceAddress // by index of the storage; nil before the first upload
	blocks    []*uploadedBlock            // the blocks of these addresses, kept alive by this list
}

// addUploaded adds the result of node n to the constants of the program. Node n uploads a constant to the device.
func (p *Program) addUploaded(n *graph.Node) {
	storageIndex := p.storageOf(n.Out[0])
	uploaded, source := &p.storages[storageIndex], n.In[0].Value
	uploaded.kind, uploaded.data = inConst, tensor.Must(source.Root().Const.View(source.Meta))
	p.uploaded.storages = append(p.uploaded.storages, storageIndex)
}

// upload returns the address on the device of each constant, by index of the constant's storage. The first call
// uploads the constants that no other program has uploaded.
func (p *Program) upload() (map[int]graph.DeviceAddress, error) {
	constants := &p.uploaded
	constants.mu.Lock()
	defer constants.mu.Unlock()
	if constants.addresses != nil { // an earlier call has uploaded them
		return constants.addresses, nil
	}
	p.uploads.mu.Lock()
	defer p.uploads.mu.Unlock()
	known := p.uploads.positions
	maps.DeleteFunc(known, func(_ constantData, position uploadedPosition) bool { return position.block.Value() == nil })
	placed := p.placeConstants(known)
	if placed.newBytes > 0 {
		if err := p.uploadBlock(placed.newBlock, placed.newBytes); err != nil {
			return nil, err
		}
		placed.blocks = append(placed.blocks, placed.newBlock)
		for storageIndex, address := range placed.addresses {
			if address.Memory == nil { // in the new block, which is now allocated
				placed.addresses[storageIndex] = graph.DeviceAddress{Memory: placed.newBlock.memory, Offset: address.Offset}
			}
		}
		if p.uploads.positions == nil {
			p.uploads.positions = map[constantData]uploadedPosition{}
		}
		maps.Copy(p.uploads.positions, placed.added)
	}
	constants.addresses, constants.blocks = placed.addresses, placed.blocks
	return placed.addresses, nil
}

// constantPlaces has the places of a program's constants: in blocks of earlier programs, or in a new block that is not
// allocated yet.
type constantPlaces struct {
	addresses map[int]graph.DeviceAddress // by index of the storage; an address in the new block has no Memory
	blocks    []*uploadedBlock            // the blocks that have the constants; upload adds newBlock
	newBlock  *uploadedBlock
	newBytes  int                               // the size of the new block
	added     map[constantData]uploadedPosition // the positions in the new block
}

// placeConstants finds a place for each constant of the program. known has the constants that are already uploaded.
func (p *Program) placeConstants(known map[constantData]uploadedPosition) *constantPlaces {
	placed := &constantPlaces{addresses: map[int]graph.DeviceAddress{}, newBlock: &uploadedBlock{},
		added: map[constantData]uploadedPosition{}}
	for _, storageIndex := range p.uploaded.storages {
		constant := &p.storages[storageIndex]
		key := constant.constantData()
		position, found := known[key]
		if existing := position.block.Value(); found && existing != nil {
			placed.addresses[storageIndex] = graph.DeviceAddress{Memory: existing.memory, Offset: position.offset}
			placed.blocks = append(placed.blocks, existing)
			continue
		}
		if _, found := placed.added[key]; !found && constant.bytes > 0 {
			placed.added[key] = uploadedPosition{weak.Make(placed.newBlock), placed.newBytes}
			placed.newBlock.data = append(placed.newBlock.data, constant.data)
			placed.newBytes += alignedSize(constant.bytes)
		}
		placed.addresses[storageIndex] = graph.DeviceAddress{Offset: placed.added[key].offset}
	}
	return placed
}

// uploadBlock allocates a block of size bytes and copies its constants. Each constant starts at the next multiple of
// tensor.Align, which gives the offsets that placeConstants has recorded.
func (p *Program) uploadBlock(block *uploadedBlock, size int) (err error) {
	if block.memory, err = p.device.Alloc(size); err != nil {
		return err
	}
	runtime.AddCleanup(block, graph.DeviceMemory.Free, block.memory)
	queue, offset := p.device.NewQueue(), 0
	for _, constant := range block.data {
		source := unsafe.Slice((*byte)(constant.Pointer()), constant.Extent()*constant.DType.Size())
		if err := queue.Upload(graph.DeviceAddress{Memory: block.memory, Offset: offset}, source); err != nil {
			return err
		}
		offset += alignedSize(len(source))
	}
	return queue.Wait()
}

// deviceSession is the memory of a session on the device.
type deviceSession struct {
	queue     graph.Queue
	addresses []graph.DeviceAddress // of all steps in order; the addresses of a step start at step.firstPtr
	arena     graph.DeviceMemory    // nil if it is empty
}

// openDevice allocates the memory of a session on the device. The memory is freed when the session is garbage.
func (s *Session) openDevice() error {
	program := s.program
	constants, err := program.upload()
	if err != nil {
		return err
	}
	opened := &deviceSession{queue: program.device.NewQueue(),
		addresses: make([]graph.DeviceAddress, program.pointerCount)}
	if program.deviceArenaSize > 0 {
		if opened.arena, err = program.device.Alloc(program.deviceArenaSize); err != nil {
			return err
		}
		runtime.AddCleanup(opened, graph.DeviceMemory.Free, opened.arena)
	}
	for i := range program.steps {
		step := &program.steps[i]
		for k, reference := range step.addresses {
			if reference.storage < 0 || program.storages[reference.storage].place == tensor.Host {
				continue // no memory, or memory of the host
			}
			storage := &program.storages[reference.storage]
			address := graph.DeviceAddress{Memory: opened.arena, Offset: storage.arenaOffset}
			if storage.kind == inConst {
				address = constants[reference.storage]
			}
			address.Offset += reference.offset
			opened.addresses[step.firstPtr+k] = address
		}
		if step.hasDeviceScratch() {
			opened.addresses[step.firstPtr+len(step.addresses)] = graph.DeviceAddress{Memory: opened.arena,
				Offset: step.scratchOffset}
		}
	}
	for i := range s.workers {
		s.workers[i].mem.Queue = opened.queue
	}
	s.device = opened
	return nil
}

// freeDevice frees the memory of the session on the device. The next run opens the device again.
func (s *Session) freeDevice() {
	if s.device != nil && s.device.arena != nil {
		s.device.arena.Free()
	}
	s.device = nil
}

// hasDeviceScratch reports whether the kernel of a step has scratch memory on the device. The address of this memory
// follows the addresses of the operands.
func (st *step) hasDeviceScratch() bool {
	return st.kernel.Scratch > 0 && st.kernel.Place != tensor.Host
}

// addressesOf returns the addresses on the device of a step's outputs, operands and scratch memory, in this order.
func (d *deviceSession) addressesOf(step *step) []graph.DeviceAddress {
	count := len(step.addresses)
	if step.hasDeviceScratch() {
		count++
	}
	return d.addresses[step.firstPtr : step.firstPtr+count]
}
