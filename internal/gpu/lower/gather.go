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
// of bytes that divides the address of the first element. A thread copies up to 16 bytes of a slice, or one element.
func Gather(f *graph.Gather, align []int, t Target) (*Program, error) {
	const u32, u64 = tensor.Uint32, tensor.Uint64
	params := len(f.Operands) + 1
	if params > t.MaxParams {
		return nil, fmt.Errorf("gpu: a gather with %d operands is %w", params, ErrUnsupported)
	}
	threads := tensor.Numel(f.Shape)
	if threads == 0 {
		return new(Program), nil
	}
	g := &gather{Gather: f, scalars: scalars{Builder: ir.NewBuilder(params, groupSize), target: t}, vector: 1}
	if err := g.setLoops(); err != nil {
		return nil, err
	}
	g.setVector()
	threads /= g.vector
	index := g.do(lane.Add, u32, g.do(lane.Mul, u32, g.Do(ir.Group, u32), g.Const(u32, groupSize)), g.Do(ir.Thread, u32))
	g.If(g.do(lane.Lt, tensor.Bool, index, g.Const(u32, uint64(threads))), func() {
		shape := append([]int(nil), g.shape...)
		shape[0] /= g.vector
		at := g.split(index, shape)
		at[0] = g.do(lane.Mul, u32, at[0], g.Const(u32, uint64(g.vector)))
		offset, isValid := g.lookUp(at)
		invalid := g.do(lane.Not, tensor.Bool, isValid)
		g.If(invalid, func() { g.Do(ir.Store, u32, g.DoImm(ir.Param, u64, uint64(params-1)), g.Const(u32, 1)) })
		g.If(isValid, func() {
			from := g.do(lane.Add, u64, g.address(1, at), offset)
			values := g.load(g.access(1, align), from)
			g.store(g.access(0, align), g.address(0, at), values)
		})
	})
	if g.err != nil {
		return nil, g.err
	}
	if err := g.Check(); err != nil {
		return nil, err
	}
	l := Launch{Kernel: &g.Kernel, Groups: g.Groups(threads)}
	for i, o := range f.Operands {
		l.Args = append(l.Args, Arg{i, o.Offset})
	}
	l.Args = append(l.Args, Arg{Buffer: FaultWord})
	return &Program{Launches: []Launch{l}, Fault: "an index is out of bounds"}, nil
}

// gather makes the kernel of a gather.
type gather struct {
	scalars
	*graph.Gather
	shape   []int   // the fastest loop first
	strides [][]int // by operand
	vector  int
}

// setLoops reverses the loops.
func (g *gather) setLoops() error {
	for k := len(g.Shape) - 1; k >= 0; k-- {
		g.shape = append(g.shape, g.Shape[k])
	}
	span := tensor.Numel(g.Shape)
	for i, o := range g.Operands {
		var strides []int
		bytes := 0
		for k := len(g.Shape) - 1; k >= 0; k-- {
			s := o.Strides[k]
			strides = append(strides, s)
			if bytes += (g.Shape[k] - 1) * s; s < 0 {
				return fmt.Errorf("gpu: a gather with operand %d of stride %d is %w", i, s, ErrUnsupported)
			}
		}
		g.strides, span = append(g.strides, strides), max(span, bytes)
	}
	if span > math.MaxInt32 {
		return fmt.Errorf("gpu: a gather over %d bytes is %w", span, ErrUnsupported)
	}
	if len(g.shape) == 0 {
		g.shape = []int{1}
		for i := range g.strides {
			g.strides[i] = []int{0}
		}
	}
	return nil
}

// setVector chooses the number of elements of a thread: those of 16 bytes if output and table are contiguous, and all
// elements have the same indices.
func (g *gather) setVector() {
	for i, s := range g.strides {
		if i < 2 && s[0] != g.Size || i >= 2 && s[0] != 0 {
			return
		}
	}
	for g.vector*g.Size < 16 && g.shape[0]%(2*g.vector) == 0 {
		g.vector *= 2
	}
}

// access returns how a thread accesses the output or the table. Elements are copied as unsigned integers.
func (g *gather) access(i int, align []int) access {
	d := map[int]tensor.DType{1: tensor.Uint8, 2: tensor.Uint16, 4: tensor.Uint32, 8: tensor.Uint64,
		16: tensor.Complex128}[g.Size]
	base := align[i] | g.Operands[i].Offset
	if i == 1 {
		for _, l := range g.Lookups {
			base |= l.Step
		}
	}
	a := access{d, g.strides[i][0], g.vector, alignOf(d, base, g.shape, g.strides[i], g.vector)}
	if a.stride == 0 {
		a.vector = 1
	}
	return a
}

// address returns the address of an operand's element at an index.
func (g *gather) address(i int, index []ir.Value) ir.Value {
	return g.advance(g.DoImm(ir.Param, tensor.Uint64, uint64(i)), g.offset(index, g.shape, g.strides[i]))
}

// lookUp reads the indices of a thread. It returns the sum of their steps, and whether all are in bounds.
func (g *gather) lookUp(at []ir.Value) (offset, isValid ir.Value) {
	const i64, u64 = tensor.Int64, tensor.Uint64
	offset, isValid = g.Const(u64, 0), g.Const(tensor.Bool, 1)
	for _, l := range g.Lookups {
		d := tensor.Int32
		if l.Int64 {
			d = i64
		}
		from := g.plus(g.address(l.Operand, at), l.Offset)
		index := g.resize(i64, g.load(access{d, 0, 1, d.Size()}, from)[0])
		size := g.Const(i64, uint64(l.Size))
		isNegative := g.do(lane.Lt, tensor.Bool, index, g.Const(i64, 0))
		index = g.choose(i64, isNegative, g.do(lane.Add, i64, index, size), index)
		position := g.bits(u64, index)
		isValid = g.do(lane.And, tensor.Bool, isValid, g.do(lane.Lt, tensor.Bool, position, g.bits(u64, size)))
		offset = g.do(lane.Add, u64, offset, g.do(lane.Mul, u64, position, g.Const(u64, uint64(l.Step))))
	}
	return offset, isValid
}
