package exec

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file assigns a storage to each root value of a graph. A root value has memory of its own. Any other value is
// in the memory of a root value: it is a view (Value.Alias), or it is stored within another value (Value.ContainedIn),
// as an operand of a concatenation may be stored within the result. For example, with an input x:
//
//	x                   storage 0, inInput
//	t = transpose(x)    a view of x, in storage 0
//	r = relu(t)         storage 1, inArena
//	y = neg(r)          storage 2, inNewMemory, because y is an output
//	z = exp(r)          storage 3, inArena
//	row = select(z)     a view of z, in storage 3; a run copies the output row to new memory (outputs.go)

// storage is the memory of one root value.
type storage struct {
	kind        storageKind
	root        *graph.Value // nil for a constant that a kernel provides
	place       tensor.Place // memory of the host or of the device
	bytes       int
	arenaOffset int            // for inArena: offset in bytes, set by planMemory
	inputIndex  int            // for inInput: index in Program.inputs
	data        *tensor.Tensor // for inConst
	// lastStep is the last step that uses the storage, or -1 for none; set by planMemory. If outputs are copied from the
	// storage, it is the number of steps.
	lastStep int
}

// storageKind is the origin of a storage's memory in a run.
type storageKind uint8

const (
	inArena     storageKind = iota // in the arena, the block of memory that all intermediate values share
	inInput                        // an input's tensor
	inConst                        // a constant's tensor
	inNewMemory                    // allocated for each run: values whose memory consists of outputs
)

// storageAddress is an address, given as a storage and an offset in bytes from the start of the storage. For an input,
// this is the offset in the layout that the graph declares; a run adds the distance to the given tensor (Session.bind).
type storageAddress struct {
	storage int // index in Program.storages, or -1 for a nil address
	offset  int
}

// nilAddress is the address of an operand without elements, or of an operand that is no tensor.
var nilAddress = storageAddress{storage: -1}

// addStorages creates the storages of all root values.
func (p *Program) addStorages(g *graph.Graph) {
	p.storages = make([]storage, 0, len(g.Inputs)+len(g.Constants)+len(g.Nodes))
	add := func(root *graph.Value, added storage) {
		added.root, added.lastStep = root, -1
		added.bytes = storageBytes(root)
		p.storages = append(p.storages, added)
		p.storageIndex.Set(root, int32(len(p.storages))) // the index plus 1: 0 stands for no storage
	}
	for i, v := range g.Inputs {
		add(v, storage{kind: inInput, inputIndex: i})
	}
	for _, v := range g.Constants {
		add(v, storage{kind: inConst, data: v.Const})
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v.Alias == nil && v.ContainedIn == nil {
				add(v, storage{kind: inArena, place: v.Place()})
			}
		}
	}
	p.outputPlan = planOutputs(g.Outputs, nil)
	for owner := range p.outputPlan.owned {
		p.storages[p.storageOf(owner)].kind = inNewMemory
	}
}

// storageOf returns the index of the storage of a value: the storage of its root value (BufferOwner follows Alias and
// ContainedIn). It returns 0 for a value that has no storage.
func (p *Program) storageOf(v *graph.Value) int {
	return int(max(p.storageIndex.At(v.BufferOwner())-1, 0))
}

// addressesOf returns the addresses of the outputs and operands of a node. It adds storages for the constants that the
// kernel provides.
func (p *Program) addressesOf(n *graph.Node, kernel *graph.Kernel) []storageAddress {
	addresses := make([]storageAddress, 0, len(n.Out)+len(n.In))
	for _, v := range n.Out {
		addresses = append(addresses, p.addressOf(v))
	}
	for i, arg := range n.In {
		address := nilAddress
		switch {
		case i < len(kernel.EmbeddedOperands) && kernel.EmbeddedOperands[i] != nil: // such as a plain number
			address = p.addConstant(kernel.EmbeddedOperands[i])
		case arg.Kind == graph.TensorArg:
			address = p.addressOf(arg.Value)
		}
		addresses = append(addresses, address)
	}
	return addresses
}

// addConstant adds a storage for a constant that a kernel provides, and returns the address of the constant.
func (p *Program) addConstant(constant *tensor.Tensor) storageAddress {
	if constant.Numel() == 0 {
		return nilAddress
	}
	p.storages = append(p.storages, storage{kind: inConst, data: constant, bytes: constant.Bytes(), lastStep: -1})
	return storageAddress{storage: len(p.storages) - 1, offset: constant.Offset * constant.DType.Size()}
}

// addressOf returns the address of a value.
func (p *Program) addressOf(v *graph.Value) storageAddress {
	if v.Meta.Numel() == 0 {
		return nilAddress
	}
	return storageAddress{storage: p.storageOf(v), offset: v.Meta.Offset * v.Meta.DType.Size()}
}
