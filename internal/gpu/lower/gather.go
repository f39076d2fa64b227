package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Gather returns the program of a gather. Its buffers are the operands of the gather: the output, the table from which
// elements are copied, and tensors of indices. For example, an embedding copies output[i, j] = table[index[i], j].
// align has an alignment in bytes for each operand: a number that divides the address of the first element.
//
// A thread copies one element, or a vector of adjacent elements with the same indices (setVector). If an index is out
// of bounds, the thread writes 1 to the fault word instead.
func Gather(source *graph.Gather, align []int, target Target) (*Program, error) {
	params := len(source.Operands) + 1
	if params > target.MaxParams {
		return nil, fmt.Errorf("gpu: a gather with %d operands is %w", len(source.Operands), ErrUnsupported)
	}
	threads := tensor.Numel(source.Shape)
	if threads == 0 {
		return new(Program), nil
	}
	g := &gather{Gather: source, scalarBuilder: scalarBuilder{Builder: ir.NewBuilder(params, groupSize), target: target},
		vector: 1}
	if err := g.setLoops(); err != nil {
		return nil, err
	}
	g.setVector()
	threads /= g.vector
	thread := g.threadIndex()
	g.If(g.isLess(thread, threads), func() { g.copyVector(thread, align) })
	if g.err != nil {
		return nil, g.err
	}
	if err := g.Check(); err != nil {
		return nil, err
	}
	launch := Launch{Kernel: &g.Kernel, Groups: g.Groups(threads)}
	for i, operand := range source.Operands {
		launch.Args = append(launch.Args, Arg{Buffer: i, Offset: operand.Offset})
	}
	launch.Args = append(launch.Args, Arg{Buffer: FaultWord})
	return &Program{Launches: []Launch{launch}, Fault: "an index is out of bounds"}, nil
}

// Operands of a gather. The operands after the table are tensors of indices.
const (
	output = iota
	table
	firstIndices
)

// gather generates the kernel of a gather.
type gather struct {
	scalarBuilder // builds the kernel: see scalar.go
	*graph.Gather
	shape   []int   // the fastest loop first
	strides [][]int // by operand, in bytes
	vector  int     // number of elements of a thread
}

// setLoops sets the shape and the strides, with the dimensions of Gather.Shape in reverse order. It returns an error if
// a stride is negative, or if an offset or the number of elements does not fit into 31 bits.
func (g *gather) setLoops() error {
	for dim := len(g.Shape) - 1; dim >= 0; dim-- {
		g.shape = append(g.shape, g.Shape[dim])
	}
	maxNumber := tensor.Numel(g.Shape) // the maximum of all offsets and indices
	for i, operand := range g.Operands {
		var strides []int
		bytes := 0
		for dim := len(g.Shape) - 1; dim >= 0; dim-- {
			stride := operand.Strides[dim]
			strides = append(strides, stride)
			bytes += (g.Shape[dim] - 1) * stride
			if stride < 0 {
				return fmt.Errorf("gpu: a gather with operand %d of stride %d is %w", i, stride, ErrUnsupported)
			}
		}
		g.strides, maxNumber = append(g.strides, strides), max(maxNumber, bytes)
	}
	if maxNumber > math.MaxInt32 {
		return fmt.Errorf("gpu: a gather of more than %d elements, or with an operand that spans more bytes, is %w",
			math.MaxInt32, ErrUnsupported)
	}
	if len(g.shape) == 0 { // add a loop of one iteration, so that there is a fastest dimension
		g.shape = []int{1}
		for i := range g.strides {
			g.strides[i] = []int{0}
		}
	}
	return nil
}

// setVector chooses the number of elements of a thread. A thread copies up to 16 bytes if output and table are
// contiguous and all elements of the thread have the same indices. Otherwise it copies one element.
func (g *gather) setVector() {
	for i, strides := range g.strides {
		wanted := g.Size // output and table are contiguous
		if i >= firstIndices {
			wanted = 0 // all elements have the same indices
		}
		if strides[0] != wanted {
			return
		}
	}
	for g.vector*g.Size < 16 && g.shape[0]%(2*g.vector) == 0 {
		g.vector *= 2
	}
}

// copyVector adds the code of the thread with the given index.
func (g *gather) copyVector(thread ir.Value, align []int) {
	shape := slices.Clone(g.shape)
	shape[0] /= g.vector
	index := g.indexInShape(thread, shape)
	index[0] = g.mul32(index[0], g.vector)
	offset, isValid := g.lookUp(index)
	g.If(g.op(lane.Not, tensor.Bool, isValid), func() {
		faultWord := g.EmitImm(ir.Param, tensor.Uint64, uint64(g.Params-1)) // the last parameter
		g.Emit(ir.Store, tensor.Uint32, faultWord, g.u32(1))
	})
	g.If(isValid, func() {
		source := g.op(lane.Add, tensor.Uint64, g.address(table, index), offset)
		numbers := g.load(g.access(table, align), source)
		g.store(g.access(output, align), g.address(output, index), numbers)
	})
}

// access returns the access of a thread to operand i, the output or the table. The dtype does not matter for a copy.
// Elements of up to 8 bytes are copied as unsigned integers, and elements of 16 bytes as complex128.
func (g *gather) access(i int, align []int) access {
	dtype := map[int]tensor.DType{1: tensor.Uint8, 2: tensor.Uint16, 4: tensor.Uint32, 8: tensor.Uint64,
		16: tensor.Complex128}[g.Size]
	base := align[i] | g.Operands[i].Offset // its lowest set bit divides the first address and the steps of lookups
	if i == table {
		for _, lookup := range g.Lookups {
			base |= lookup.Step
		}
	}
	return access{dtype: dtype, stride: g.strides[i][0], vector: g.vector,
		align: alignOf(dtype, base, g.shape, g.strides[i], g.vector)} // the alignment divides the addresses of all accesses
}

// address returns the address of operand i's element at an index of the loops.
func (g *gather) address(i int, index []ir.Value) ir.Value {
	return g.addOffset(g.EmitImm(ir.Param, tensor.Uint64, uint64(i)), g.offset(index, g.shape, g.strides[i]))
}

// lookUp reads the elements of the index tensors at loopIndex. It returns the offset in bytes in the table that these
// elements select, and whether all elements are in bounds. A negative element counts from the end of the indexed
// dimension, unless FromStart is set. A lookup (graph.GatherIndex) has the Operand with the indices, an Offset in this operand, the Size of the
// indexed dimension, and the Step between consecutive indices in the table. Offset and Step are in bytes.
func (g *gather) lookUp(loopIndex []ir.Value) (offset, isValid ir.Value) {
	const i64, u64 = tensor.Int64, tensor.Uint64
	offset, isValid = g.Const(u64, 0), g.Const(tensor.Bool, 1)
	for _, lookup := range g.Lookups {
		dtype := tensor.Int32
		if lookup.Int64 {
			dtype = i64
		}
		from := g.addBytes(g.address(lookup.Operand, loopIndex), lookup.Offset)
		index := g.convertInteger(i64, g.load(oneElement(dtype), from)[0])
		size := g.Const(i64, uint64(lookup.Size))
		if !lookup.FromStart {
			isNegative := g.op(lane.Lt, tensor.Bool, index, g.Const(i64, 0))
			index = g.selectValue(i64, isNegative, g.op(lane.Add, i64, index, size), index)
		}
		position := g.bits(u64, index) // if the index is still negative, it is out of bounds as an unsigned number
		isValid = g.op(lane.And, tensor.Bool, isValid, g.op(lane.Lt, tensor.Bool, position, g.bits(u64, size)))
		offset = g.op(lane.Add, u64, offset, g.op(lane.Mul, u64, position, g.Const(u64, uint64(lookup.Step))))
	}
	return offset, isValid
}
