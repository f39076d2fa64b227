package lower

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// groupSize is the number of threads of a group.
const groupSize = 256

// Pointwise returns the program that computes an expression over an iteration. The buffers of the program are the
// operands of the iteration, outputs first. The expression determines their dtypes. align has an alignment in bytes for
// each operand: a number that divides the address of the operand. An output may overlap an input only if both have the
// same address and strides, and elements of the same size.
//
// Each thread computes a vector of elements of the fastest dimension. For example, a sum of contiguous float32 tensors
// of shape [100, 64] has vectors of 4 elements (16 bytes), and thus 1600 threads: 7 groups of 256 threads. The threads
// beyond the last element do nothing.
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

// minSplitTail is the minimum number of elements of a one-dimensional iteration whose last elements get a separate
// launch. There is a separate launch only if the last elements do not fill a vector.
const minSplitTail = 1 << 14

// pointwiseLaunches returns the launches for an iteration with 32-bit offsets. Usually there is one launch. There are
// two launches if a thread could compute a longer vector, but the number of elements is not a multiple of this vector's
// length.
func pointwiseLaunches(code *expr.Code, iteration *iter.Iterator, align []int, target Target) ([]Launch, error) {
	kernel := newPointwise(code, iteration, align, target)
	elements := iteration.Numel()
	hasTail := len(kernel.shape) == 1 && elements >= minSplitTail && kernel.vector < kernel.maxVector()
	if !hasTail {
		if tiled := newTile(kernel); tiled != nil {
			return tiled.launch()
		}
		return kernel.launch()
	}
	var launches []Launch
	tail := elements % kernel.maxVector()
	for _, elementRange := range [][2]int{{0, elements - tail}, {elements - tail, tail}} { // start and length
		narrowed, err := iteration.Narrow(0, elementRange[0], elementRange[1])
		if err != nil {
			return nil, err
		}
		added, err := pointwiseLaunches(code, narrowed, align, target) // neither part has a tail
		if err != nil {
			return nil, err
		}
		launches = append(launches, added...)
	}
	return launches, nil
}

// pointwise generates the kernel of an expression over an iteration with 32-bit offsets. A thread computes a vector:
// several consecutive elements along the fastest dimension, or one element.
type pointwise struct {
	scalarBuilder // builds the kernel: see scalar.go
	code          *expr.Code
	shape         []int          // fastest dimension first
	strides       [][]int        // by operand (outputs first) and dimension, in bytes
	dtypes        []tensor.DType // by operand
	alignmentBits []int          // by operand: the lowest set bit divides the address of the first element
	align         []int          // by operand: a power of 2 that divides the addresses that a thread accesses
	offsets       []int          // by operand: bytes from the address of the operand to the first element
	vector        int            // consecutive elements that a thread computes
	loaded        [][]ir.Value   // by operand: the numbers that the thread has loaded (see memory.go)
}

// newPointwise returns a generator. It chooses the alignment of accesses and the number of elements of a thread. The
// size of the fastest dimension is a multiple of this number.
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

// numbersPerElement returns the number of real numbers in an element of operand i: 2 for a complex element, else 1.
func (p *pointwise) numbersPerElement(i int) int {
	if p.dtypes[i].IsComplex() {
		return 2
	}
	return 1
}

// alignOf returns a power of 2 that divides all addresses at which threads access an operand. If the fastest dimension
// (shape[0], strides[0]) is contiguous, a thread accesses a vector of consecutive elements; otherwise it accesses
// single elements. The lowest set bit of base divides the first address. The result is at most 16 bytes, the size of
// the largest access.
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

// maxInstructions is the maximum number of instructions of a thread that computes several elements.
const maxInstructions = 512

// maxVector returns the maximum number of elements of a thread, a power of 2. These elements have at most 16 bytes in
// each contiguous operand, and take at most maxInstructions instructions. If no operand is contiguous, the number is 1.
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
	var staged map[int][]ir.Value // nil: the thread loads all operands
	p.If(p.isLess(index, threads), func() { p.addElements(p.indices(index), staged) })
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

// addElements adds the code that computes the vector of elements of a thread. index is the index of the first element.
// staged has, by operand, numbers that are already in registers, so that the thread need not load them.
func (p *pointwise) addElements(index []ir.Value, staged map[int][]ir.Value) {
	outs := len(p.code.Out)
	p.loaded = make([][]ir.Value, len(p.dtypes))
	for i := outs; i < len(p.dtypes); i++ {
		p.loaded[i] = staged[i]
		if p.loaded[i] == nil {
			p.loaded[i] = p.load(p.access(i), p.address(i, index))
		}
	}
	stored := make([][]ir.Value, outs)
	for position := range p.vector {
		values := p.addElement(position)
		for output, value := range p.code.Out {
			stored[output] = append(stored[output], values[value.Re])
			if value.Im != expr.None {
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

// indices returns the index in each dimension of the first element of a thread. `index` is the index of the thread.
func (p *pointwise) indices(index ir.Value) []ir.Value {
	shape := slices.Clone(p.shape)
	shape[0] /= p.vector
	list := p.indexInShape(index, shape)
	if p.vector > 1 {
		list[0] = p.mul32(list[0], p.vector)
	}
	return list
}

// address returns the address of operand i's element at an index.
func (p *pointwise) address(i int, index []ir.Value) ir.Value {
	return p.addOffset(p.EmitImm(ir.Param, tensor.Uint64, uint64(i)), p.offset(index, p.shape, p.strides[i]))
}
