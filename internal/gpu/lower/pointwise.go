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
// iteration, outputs first. The code has the dtypes of the operands in memory. align has, by operand, a number of bytes
// that divides the address of the first element. Outputs may have the same addresses and strides as operands with
// elements of the same size.
func Pointwise(c *expr.Code, it *iter.Iterator, align []int, t Target) (*Program, error) {
	code, err := expanded(c, t)
	if err != nil {
		return nil, err
	}
	p := new(Program)
	for _, part := range it.Split32() {
		if part.Numel() == 0 {
			continue
		}
		list, err := pointwisePart(code, part, align, t)
		if err != nil {
			return nil, err
		}
		p.Launches = append(p.Launches, list...)
	}
	return p, nil
}

// expanded returns the code with functions replaced by primitive operations.
func expanded(c *expr.Code, t Target) (*expr.Code, error) {
	if !c.Compilable() {
		return nil, fmt.Errorf("gpu: a function in Go is %w", ErrUnsupported)
	}
	code, err := expand.Functions(c, expand.Target{})
	if err != nil {
		return nil, fmt.Errorf("gpu: %w: %w", ErrUnsupported, err)
	}
	if operands := len(code.Out) + len(code.In); operands > t.MaxParams {
		return nil, fmt.Errorf("gpu: a kernel with %d operands is %w", operands, ErrUnsupported)
	}
	return code, nil
}

// minSplitTail is the minimum number of elements of a contiguous iteration from which the elements that do not fill a
// vector are computed by a launch of their own.
const minSplitTail = 1 << 14

func pointwisePart(code *expr.Code, it *iter.Iterator, align []int, t Target) ([]Launch, error) {
	p := newPointwise(code, it, align, t)
	if n := it.Numel(); len(p.shape) == 1 && n >= minSplitTail && p.vector < p.maxVector() {
		tail := n % p.maxVector()
		first, err := it.Narrow(0, 0, n-tail)
		if err != nil {
			return nil, err
		}
		last, err := it.Narrow(0, n-tail, tail)
		if err != nil {
			return nil, err
		}
		launches, err := pointwisePart(code, first, align, t)
		if err != nil {
			return nil, err
		}
		rest, err := pointwisePart(code, last, align, t)
		return append(launches, rest...), err
	}
	return p.launch()
}

// pointwise makes the kernel of an expression over an iteration with 32-bit offsets.
type pointwise struct {
	scalars
	code    *expr.Code
	shape   []int // fastest dimension first
	strides [][]int
	dtypes  []tensor.DType
	align   []int // by operand: a power of 2 that divides the addresses which a thread accesses
	offsets []int
	vector  int // consecutive elements that a thread computes
	loaded  [][]ir.Value
}

func newPointwise(code *expr.Code, it *iter.Iterator, align []int, t Target) *pointwise {
	p := &pointwise{code: code, shape: it.WalkShape()}
	for _, o := range code.Out {
		p.dtypes = append(p.dtypes, o.DType)
	}
	p.dtypes = append(p.dtypes, code.In...)
	p.scalars = scalars{Builder: ir.NewBuilder(len(p.dtypes), groupSize), target: t}
	if len(p.shape) == 0 {
		p.shape = []int{1}
	}
	for i := range p.dtypes {
		strides := it.WalkStrides(i)
		if len(strides) == 0 {
			strides = []int{p.dtypes[i].Size()}
		}
		p.strides, p.offsets = append(p.strides, strides), append(p.offsets, it.Offset(i))
	}
	p.vector = p.maxVector()
	for p.shape[0]%p.vector != 0 {
		p.vector /= 2
	}
	for i, d := range p.dtypes {
		p.align = append(p.align, alignOf(d, align[i]|p.offsets[i], p.shape, p.strides[i], p.vector))
	}
	return p
}

// alignOf returns a power of 2 that divides the addresses of accesses to an operand: vectors of consecutive elements
// along the fastest dimension if that is contiguous, else elements. base is a multiple of a divisor of the first
// address.
func alignOf(d tensor.DType, base int, shape, strides []int, vector int) int {
	a := base | 16
	for k, s := range strides {
		if k == 0 && s == d.Size() {
			s *= vector
		}
		if shape[k] > 1 {
			a |= s
		}
	}
	return max(a&-a, d.ToReal().Size())
}

// access returns how a thread accesses an operand.
func (p *pointwise) access(i int) access {
	return access{p.dtypes[i], p.strides[i][0], p.vector, p.align[i]}
}

// isUnit reports whether an operand is contiguous along the fastest dimension.
func (p *pointwise) isUnit(i int) bool { return p.strides[i][0] == p.dtypes[i].Size() }

// maxInstructions bounds the instructions of a thread that computes several elements.
const maxInstructions = 512

// maxVector returns the number of elements of a thread for a fastest dimension of any size: those of 16 bytes of the
// contiguous operand with the largest elements, or 1 if no operand is contiguous.
func (p *pointwise) maxVector() int {
	largest := 0
	for i, d := range p.dtypes {
		if p.isUnit(i) {
			largest = max(largest, d.Size())
		}
	}
	if largest == 0 {
		return 1
	}
	n := max(16/largest, 1)
	for n > 1 && n*len(p.code.Insts) > maxInstructions {
		n /= 2
	}
	return n
}

func (p *pointwise) launch() ([]Launch, error) {
	const u32 = tensor.Uint32
	threads := tensor.Numel(p.shape) / p.vector
	index := p.do(lane.Add, u32, p.do(lane.Mul, u32, p.Do(ir.Group, u32), p.Const(u32, groupSize)),
		p.Do(ir.Thread, u32))
	p.If(p.do(lane.Lt, tensor.Bool, index, p.Const(u32, uint64(threads))), func() { p.body(index) })
	if p.err != nil {
		return nil, p.err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	k := &p.Kernel
	l := Launch{Kernel: k, Groups: k.Groups(threads)}
	for i, offset := range p.offsets {
		l.Args = append(l.Args, Arg{i, offset})
	}
	return []Launch{l}, nil
}

// body computes the elements of a thread.
func (p *pointwise) body(index ir.Value) {
	at := p.addresses(p.indices(index))
	outs := len(p.code.Out)
	p.loaded = make([][]ir.Value, len(p.dtypes))
	for i := outs; i < len(p.dtypes); i++ {
		p.loaded[i] = p.load(p.access(i), at[i])
	}
	stored := make([][]ir.Value, outs)
	for k := range p.vector {
		values := p.element(k)
		for o, out := range p.code.Out {
			if stored[o] = append(stored[o], values[out.Re]); out.Im != expr.None {
				stored[o] = append(stored[o], values[out.Im])
			}
		}
	}
	for o := range outs {
		p.store(p.access(o), at[o], stored[o])
	}
}

// element computes the values of element k of a thread.
func (p *pointwise) element(k int) []ir.Value {
	return p.eval(p.code, func(operand, part int) ir.Value {
		operand += len(p.code.Out)
		parts := 1
		if p.dtypes[operand].IsComplex() {
			parts = 2
		}
		l := p.loaded[operand]
		return l[(k*parts+part)%len(l)] // an operand of stride 0 has one element
	})
}

// indices returns the index in each dimension of the first element of a thread.
func (p *pointwise) indices(index ir.Value) []ir.Value {
	shape := slices.Clone(p.shape)
	shape[0] /= p.vector
	list := p.split(index, shape)
	if p.vector > 1 {
		list[0] = p.do(lane.Mul, tensor.Uint32, list[0], p.Const(tensor.Uint32, uint64(p.vector)))
	}
	return list
}

// quotient divides a number below 2^31 by n. For 2^(l-1) < n < 2^l and m = floor(2^(31+l)/n) + 1, the quotient is
// x*m >> (31+l): x*m exceeds x*2^(31+l)/n by less than 2^(31+l)/n (Granlund and Montgomery, 1994).
func (s *scalars) quotient(x ir.Value, n int) ir.Value {
	const u32 = tensor.Uint32
	l := bits.Len(uint(n - 1))
	if n&(n-1) == 0 {
		return s.do(lane.Shr, u32, x, s.Const(u32, uint64(l)))
	}
	m := uint64(1)<<(31+l)/uint64(n) + 1
	return s.do(lane.Shr, u32, s.Do(ir.MulHigh, u32, x, s.Const(u32, m)), s.Const(u32, uint64(l-1)))
}

// split returns the index in each dimension, the fastest first, of a row-major index below 2^31.
func (s *scalars) split(index ir.Value, shape []int) (list []ir.Value) {
	const u32 = tensor.Uint32
	for d, n := range shape {
		i := index
		if d < len(shape)-1 {
			q := s.quotient(index, n)
			i = s.do(lane.Sub, u32, index, s.do(lane.Mul, u32, q, s.Const(u32, uint64(n))))
			index = q
		}
		list = append(list, i)
	}
	return list
}

// offset returns the sum of products of indices and strides, below 2^32, or ir.None for 0.
func (s *scalars) offset(index []ir.Value, shape, strides []int) ir.Value {
	const u32 = tensor.Uint32
	sum := ir.None
	for d, stride := range strides {
		if stride == 0 || shape[d] == 1 {
			continue
		}
		term := s.do(lane.Mul, u32, index[d], s.Const(u32, uint64(stride)))
		if sum != ir.None {
			term = s.do(lane.Add, u32, sum, term)
		}
		sum = term
	}
	return sum
}

// advance returns an address plus an offset.
func (s *scalars) advance(at, offset ir.Value) ir.Value {
	if offset == ir.None {
		return at
	}
	return s.do(lane.Add, tensor.Uint64, at, s.do(lane.Convert, tensor.Uint64, offset))
}

// addresses returns the address of the first element of a thread in each operand.
func (p *pointwise) addresses(index []ir.Value) (list []ir.Value) {
	for i, strides := range p.strides {
		at := p.DoImm(ir.Param, tensor.Uint64, uint64(i))
		list = append(list, p.advance(at, p.offset(index, p.shape, strides)))
	}
	return list
}
