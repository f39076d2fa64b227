package lower

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// groupSize is the number of threads of a group.
const groupSize = 256

// Pointwise returns the program that computes an expression over an iteration. Its buffers are the operands of the
// iteration, outputs first. The expression gives their dtypes. align has, by operand, a number of bytes that divides
// the address of the operand. An output may overlap an input only if both have the same address and strides, and
// elements of the same size.
func Pointwise(source *expr.Code, iteration *iter.Iterator, align []int, target Target) (*Program, error) {
	code, err := expandFunctions(source, target)
	if err != nil {
		return nil, err
	}
	program := new(Program)
	for _, iteration32 := range iteration.Split32() { // iterations with 32-bit offsets
		if iteration32.Numel() == 0 {
			continue
		}
		list, err := pointwiseLaunches(code, iteration32, align, target)
		if err != nil {
			return nil, err
		}
		program.Launches = append(program.Launches, list...)
	}
	return program, nil
}

// expandFunctions returns the code with elementary functions replaced by primitive operations.
func expandFunctions(source *expr.Code, target Target) (*expr.Code, error) {
	if !source.Compilable() {
		return nil, fmt.Errorf("gpu: a function in Go is %w", ErrUnsupported)
	}
	code, err := expand.Functions(source, expand.Target{})
	if err != nil {
		return nil, fmt.Errorf("gpu: %w: %w", ErrUnsupported, err)
	}
	if operands := len(code.Out) + len(code.In); operands > target.MaxParams {
		return nil, fmt.Errorf("gpu: a kernel with %d operands is %w", operands, ErrUnsupported)
	}
	return code, nil
}

// minSplitTail is the minimum number of elements of a one-dimensional iteration for a separate launch of its last
// elements. This launch is made if the last elements do not fill a vector.
const minSplitTail = 1 << 14

// pointwiseLaunches returns the launches for an iteration with 32-bit offsets. Usually there is one. There are two
// launches if only the number of elements makes the vector of a thread short: it is not a multiple of the longest
// vector.
func pointwiseLaunches(code *expr.Code, iteration *iter.Iterator, align []int, target Target) ([]Launch, error) {
	kernel := newPointwise(code, iteration, align, target)
	if elements := iteration.Numel(); len(kernel.shape) == 1 && elements >= minSplitTail &&
		kernel.vector < kernel.maxVector() {
		tail := elements % kernel.maxVector()
		first, err := iteration.Narrow(0, 0, elements-tail)
		if err != nil {
			return nil, err
		}
		last, err := iteration.Narrow(0, elements-tail, tail)
		if err != nil {
			return nil, err
		}
		launches, err := pointwiseLaunches(code, first, align, target)
		if err != nil {
			return nil, err
		}
		tailLaunches, err := pointwiseLaunches(code, last, align, target)
		return append(launches, tailLaunches...), err
	}
	if tiled := newTile(kernel); tiled != nil {
		return tiled.launch()
	}
	return kernel.launch()
}

// pointwise generates the kernel of an expression over an iteration with 32-bit offsets. A thread computes a vector:
// several consecutive elements along the fastest dimension, or one element.
type pointwise struct {
	scalarBuilder // builds the kernel: see scalar.go
	code          *expr.Code
	shape         []int          // fastest dimension first
	strides       [][]int        // by operand (outputs first) and dimension, in bytes
	dtypes        []tensor.DType // by operand
	alignmentBits []int          // by operand: its lowest set bit divides the address of the first element
	align         []int          // by operand: a power of 2 that divides the addresses which a thread accesses
	offsets       []int          // by operand: bytes from the address of the operand to the first element
	vector        int            // consecutive elements that a thread computes
	loaded        [][]ir.Value   // by operand: the values that the thread has loaded, one per element
}

// newPointwise returns a generator. It chooses the number of elements of a thread, which divides the fastest dimension,
// and the alignment of accesses.
func newPointwise(code *expr.Code, iteration *iter.Iterator, align []int, target Target) *pointwise {
	created := &pointwise{code: code, shape: iteration.WalkShape()}
	for _, output := range code.Out {
		created.dtypes = append(created.dtypes, output.DType)
	}
	created.dtypes = append(created.dtypes, code.In...)
	created.scalarBuilder = scalarBuilder{Builder: ir.NewBuilder(len(created.dtypes), groupSize), target: target}
	if len(created.shape) == 0 {
		created.shape = []int{1}
	}
	for i := range created.dtypes {
		strides := iteration.WalkStrides(i)
		if len(strides) == 0 {
			strides = []int{created.dtypes[i].Size()}
		}
		created.strides, created.offsets = append(created.strides, strides),
			append(created.offsets, iteration.Offset(i))
	}
	for i, offset := range created.offsets {
		created.alignmentBits = append(created.alignmentBits, align[i]|offset)
	}
	vector := created.maxVector()
	for created.shape[0]%vector != 0 {
		vector /= 2
	}
	created.setVector(vector)
	return created
}

// setVector sets the number of elements of a thread, and the alignment of its accesses.
func (p *pointwise) setVector(vector int) {
	p.vector, p.align = vector, nil
	for i, dtype := range p.dtypes {
		p.align = append(p.align, alignOf(dtype, p.alignmentBits[i], p.shape, p.strides[i], vector))
	}
}

// numbersPerElement returns the number of real numbers in an element of operand i: 2 for a complex one.
func (p *pointwise) numbersPerElement(i int) int {
	if p.dtypes[i].IsComplex() {
		return 2
	}
	return 1
}

// alignOf returns a power of 2 that divides all addresses at which threads access an operand. If the fastest dimension
// (shape[0], strides[0]) is contiguous, a thread accesses a vector of consecutive elements; otherwise it accesses
// single elements. base is a number whose lowest set bit divides the first address. The result is at most 16 bytes, the
// size of the largest access.
func alignOf(dtype tensor.DType, base int, shape, strides []int, vector int) int {
	bits := base | 16 // its lowest set bit divides all addresses
	for dim, stride := range strides {
		if dim == 0 && stride == dtype.Size() {
			stride *= vector
		}
		if shape[dim] > 1 {
			bits |= stride
		}
	}
	return max(bits&-bits, dtype.ToReal().Size())
}

// access returns the access of a thread to operand i.
func (p *pointwise) access(i int) access {
	return access{dtype: p.dtypes[i], stride: p.strides[i][0], vector: p.vector, align: p.align[i]}
}

// isContiguous reports whether an operand is contiguous along the fastest dimension.
func (p *pointwise) isContiguous(i int) bool { return p.strides[i][0] == p.dtypes[i].Size() }

// maxInstructions bounds the instructions of a thread that computes several elements.
const maxInstructions = 512

// maxVector returns the maximum number of elements of a thread, a power of 2. They take at most 16 bytes in each
// contiguous operand, and at most maxInstructions instructions. If no operand is contiguous, the number is 1.
func (p *pointwise) maxVector() int {
	largest := 0
	for i, dtype := range p.dtypes {
		if p.isContiguous(i) {
			largest = max(largest, dtype.Size())
		}
	}
	if largest == 0 {
		return 1
	}
	elements := max(16/largest, 1)
	for elements > 1 && elements*len(p.code.Insts) > maxInstructions {
		elements /= 2
	}
	return elements
}

// launch builds the kernel and returns its only launch.
func (p *pointwise) launch() ([]Launch, error) {
	threads := tensor.Numel(p.shape) / p.vector
	index := p.threadIndex()
	p.If(p.isLess(index, threads), func() { p.addElements(p.indices(index), nil) })
	return p.checkedLaunch(p.Groups(threads))
}

// checkedLaunch returns the only launch of the kernel, with a number of groups, or the error of building the kernel.
func (p *pointwise) checkedLaunch(groups int) ([]Launch, error) {
	if p.err != nil {
		return nil, p.err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	launch := Launch{Kernel: &p.Kernel, Groups: groups}
	for i, offset := range p.offsets {
		launch.Args = append(launch.Args, Arg{Buffer: i, Offset: offset})
	}
	return []Launch{launch}, nil
}

// threadIndex returns the index of the thread among all threads of the launch.
func (s *scalarBuilder) threadIndex() ir.Value {
	const u32 = tensor.Uint32
	return s.op(lane.Add, u32, s.op(lane.Mul, u32, s.Emit(ir.Group, u32), s.Const(u32, groupSize)), s.Emit(ir.Thread, u32))
}

// addElements adds the code that computes the vector of elements of a thread. index is the index of the first one.
// staged has, by operand, numbers that are in registers already, so that the thread need not load them.
func (p *pointwise) addElements(index []ir.Value, staged map[int][]ir.Value) {
	outs := len(p.code.Out)
	p.loaded = make([][]ir.Value, len(p.dtypes))
	for i := outs; i < len(p.dtypes); i++ {
		if p.loaded[i] = staged[i]; p.loaded[i] == nil {
			p.loaded[i] = p.load(p.access(i), p.address(i, index))
		}
	}
	stored := make([][]ir.Value, outs)
	for position := range p.vector {
		values := p.addElement(position)
		for output, value := range p.code.Out {
			if stored[output] = append(stored[output], values[value.Re]); value.Im != expr.None {
				stored[output] = append(stored[output], values[value.Im])
			}
		}
	}
	for output := range outs {
		p.store(p.access(output), p.address(output, index), stored[output])
	}
}

// addElement adds the code for one element of the thread's vector, and returns the values of the instructions of the
// expression.
func (p *pointwise) addElement(position int) []ir.Value {
	return p.eval(p.code, func(operand, part int) ir.Value {
		operand += len(p.code.Out)
		numbers := p.loaded[operand]
		return numbers[(position*p.numbersPerElement(operand)+part)%len(numbers)] // an operand of stride 0 has one element
	})
}

// indices returns the index in each dimension of the first element of the thread with the given index.
func (p *pointwise) indices(index ir.Value) []ir.Value {
	shape := slices.Clone(p.shape)
	shape[0] /= p.vector
	list := p.indexInShape(index, shape)
	if p.vector > 1 {
		list[0] = p.op(lane.Mul, tensor.Uint32, list[0], p.Const(tensor.Uint32, uint64(p.vector)))
	}
	return list
}

// quotient returns floor(x/n) for a uint32 x below 2^31. If n is not a power of 2, let 2^(l-1) < n < 2^l and
// m = floor(2^(31+l)/n) + 1. The quotient is x*m >> (31+l), because x*m exceeds x*2^(31+l)/n by less than 2^(31+l)/n
// (Granlund and Montgomery, 1994).
func (s *scalarBuilder) quotient(x ir.Value, n int) ir.Value {
	const u32 = tensor.Uint32
	log := bits.Len(uint(n - 1))
	if n&(n-1) == 0 {
		return s.op(lane.Shr, u32, x, s.Const(u32, uint64(log)))
	}
	multiplier := uint64(1)<<(31+log)/uint64(n) + 1
	// MulHigh has already shifted by 32 of the 31+log bits.
	return s.op(lane.Shr, u32, s.Emit(ir.MulHigh, u32, x, s.Const(u32, multiplier)), s.Const(u32, uint64(log-1)))
}

// indexInShape returns the index in each dimension of a linear index below 2^31. The first dimension of shape is the
// fastest.
func (s *scalarBuilder) indexInShape(index ir.Value, shape []int) (list []ir.Value) {
	const u32 = tensor.Uint32
	for dim, size := range shape {
		indexInDim := index
		if dim < len(shape)-1 {
			quotient := s.quotient(index, size)
			indexInDim = s.op(lane.Sub, u32, index, s.op(lane.Mul, u32, quotient, s.Const(u32, uint64(size))))
			index = quotient
		}
		list = append(list, indexInDim)
	}
	return list
}

// offset returns the sum of the products of indices and strides, which is below 2^32. It returns ir.None if the sum is
// always 0.
func (s *scalarBuilder) offset(index []ir.Value, shape, strides []int) ir.Value {
	const u32 = tensor.Uint32
	sum := ir.None
	for dim, stride := range strides {
		if stride == 0 || shape[dim] == 1 {
			continue
		}
		term := s.op(lane.Mul, u32, index[dim], s.Const(u32, uint64(stride)))
		if sum != ir.None {
			term = s.op(lane.Add, u32, sum, term)
		}
		sum = term
	}
	return sum
}

// addOffset returns an address plus an offset in bytes that [scalarBuilder.offset] returned: ir.None is 0.
func (s *scalarBuilder) addOffset(address, offset ir.Value) ir.Value {
	if offset == ir.None {
		return address
	}
	return s.op(lane.Add, tensor.Uint64, address, s.op(lane.Convert, tensor.Uint64, offset))
}

// address returns the address of operand i's element at an index.
func (p *pointwise) address(i int, index []ir.Value) ir.Value {
	return p.addOffset(p.EmitImm(ir.Param, tensor.Uint64, uint64(i)), p.offset(index, p.shape, p.strides[i]))
}
