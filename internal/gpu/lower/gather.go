package lower

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Gather returns the program of a gather. Its buffers are the operands of the gather. align has, by operand, a number
// of bytes that divides the address of the first element. A thread copies one element or several adjacent elements
// (setVector).
func Gather(source *graph.Gather, align []int, target Target) (*Program, error) {
	const u32, u64 = tensor.Uint32, tensor.Uint64
	params := len(source.Operands) + 1
	if params > target.MaxParams {
		return nil, fmt.Errorf("gpu: a gather with %d operands is %w", len(source.Operands), ErrUnsupported)
	}
	threads := tensor.Numel(source.Shape)
	if threads == 0 {
		return new(Program), nil
	}
	made := &gather{Gather: source, scalars: scalars{Builder: ir.NewBuilder(params, groupSize),
		target: target}, vector: 1}
	if err := made.setLoops(); err != nil {
		return nil, err
	}
	made.setVector()
	threads /= made.vector
	index := made.do(lane.Add, u32, made.do(lane.Mul, u32, made.Do(ir.Group, u32),
		made.Const(u32, groupSize)), made.Do(ir.Thread, u32))
	made.If(made.do(lane.Lt, tensor.Bool, index, made.Const(u32, uint64(threads))), func() {
		shape := append([]int(nil), made.shape...)
		shape[0] /= made.vector
		position := made.split(index, shape)
		position[0] = made.do(lane.Mul, u32, position[0], made.Const(u32, uint64(made.vector)))
		offset, isValid := made.lookUp(position)
		invalid := made.do(lane.Not, tensor.Bool, isValid)
		made.If(invalid, func() { // the last parameter is the fault word
			made.Do(ir.Store, u32, made.DoImm(ir.Param, u64, uint64(params-1)),
				made.Const(u32, 1))
		})
		made.If(isValid, func() {
			from := made.do(lane.Add, u64, made.address(1, position), offset)
			values := made.load(made.access(1, align), from)
			made.store(made.access(0, align), made.address(0, position), values)
		})
	})
	if made.err != nil {
		return nil, made.err
	}
	if err := made.Check(); err != nil {
		return nil, err
	}
	launch := Launch{Kernel: &made.Kernel, Groups: made.Groups(threads)}
	for i, operand := range source.Operands {
		launch.Args = append(launch.Args, Arg{Buffer: i, Offset: operand.Offset})
	}
	launch.Args = append(launch.Args, Arg{Buffer: FaultWord})
	return &Program{Launches: []Launch{launch}, Fault: "an index is out of bounds"}, nil
}

// gather generates the kernel of a gather. Operand 0 is the output and operand 1 the table; the others are indices.
type gather struct {
	scalars
	*graph.Gather
	shape   []int   // the fastest loop first
	strides [][]int // by operand, in bytes
	vector  int     // number of elements of a thread
}

// setLoops sets the shape and the strides, which have the loops in reverse order. It returns an error if a stride is
// negative, or if an offset or the number of elements does not fit into 31 bits.
func (g *gather) setLoops() error {
	for dim := len(g.Shape) - 1; dim >= 0; dim-- {
		g.shape = append(g.shape, g.Shape[dim])
	}
	span := tensor.Numel(g.Shape)
	for i, operand := range g.Operands {
		var strides []int
		bytes := 0
		for dim := len(g.Shape) - 1; dim >= 0; dim-- {
			stride := operand.Strides[dim]
			strides = append(strides, stride)
			if bytes += (g.Shape[dim] - 1) * stride; stride < 0 {
				return fmt.Errorf("gpu: a gather with operand %d of stride %d is %w", i, stride, ErrUnsupported)
			}
		}
		g.strides, span = append(g.strides, strides), max(span, bytes)
	}
	if span > math.MaxInt32 {
		return fmt.Errorf("gpu: a gather of more than %d elements, or with an operand that spans more bytes, is %w",
			math.MaxInt32, ErrUnsupported)
	}
	if len(g.shape) == 0 {
		g.shape = []int{1}
		for i := range g.strides {
			g.strides[i] = []int{0}
		}
	}
	return nil
}

// setVector chooses the number of elements of a thread. A thread copies up to 16 bytes if output and table are
// contiguous and all its elements have the same indices, and otherwise one element.
func (g *gather) setVector() {
	for i, strides := range g.strides {
		if i < 2 && strides[0] != g.Size || i >= 2 && strides[0] != 0 {
			return
		}
	}
	for g.vector*g.Size < 16 && g.shape[0]%(2*g.vector) == 0 {
		g.vector *= 2
	}
}

// access returns how a thread accesses the output or the table. Elements of up to 8 bytes are copied as
// unsigned integers, elements of 16 bytes as complex128.
func (g *gather) access(i int, align []int) access {
	dtype := map[int]tensor.DType{1: tensor.Uint8, 2: tensor.Uint16, 4: tensor.Uint32, 8: tensor.Uint64,
		16: tensor.Complex128}[g.Size]
	base := align[i] | g.Operands[i].Offset
	if i == 1 {
		for _, lookup := range g.Lookups {
			base |= lookup.Step
		}
	}
	result := access{dtype: dtype, stride: g.strides[i][0], vector: g.vector,
		align: alignOf(dtype, base, g.shape, g.strides[i], g.vector)}
	if result.stride == 0 {
		result.vector = 1
	}
	return result
}

// address returns the address of an operand's element at an index.
func (g *gather) address(i int, index []ir.Value) ir.Value {
	return g.advance(g.DoImm(ir.Param, tensor.Uint64, uint64(i)), g.offset(index, g.shape, g.strides[i]))
}

// lookUp reads the indices of a thread. It returns the offset in the table that they select, and whether all are in
// bounds. A negative index counts from the end.
func (g *gather) lookUp(indexOfThread []ir.Value) (offset, isValid ir.Value) {
	const i64, u64 = tensor.Int64, tensor.Uint64
	offset, isValid = g.Const(u64, 0), g.Const(tensor.Bool, 1)
	for _, lookup := range g.Lookups {
		dtype := tensor.Int32
		if lookup.Int64 {
			dtype = i64
		}
		from := g.plus(g.address(lookup.Operand, indexOfThread), lookup.Offset)
		index := g.resize(i64, g.load(oneElement(dtype), from)[0])
		size := g.Const(i64, uint64(lookup.Size))
		isNegative := g.do(lane.Lt, tensor.Bool, index, g.Const(i64, 0))
		index = g.choose(i64, isNegative, g.do(lane.Add, i64, index, size), index)
		position := g.bits(u64, index) // an index that is still negative is out of bounds as an unsigned number
		isValid = g.do(lane.And, tensor.Bool, isValid, g.do(lane.Lt, tensor.Bool, position, g.bits(u64, size)))
		offset = g.do(lane.Add, u64, offset, g.do(lane.Mul, u64, position, g.Const(u64, uint64(lookup.Step))))
	}
	return offset, isValid
}
