package reduce

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type cumAttrs struct {
	Dim   int          `attr:"dim" doc:"dimension along which the sums or products run"`
	DType tensor.DType `attr:"dtype" default:"none" doc:"dtype to which self is converted first"`
}

// Cumsum and Cumprod are running sums and products. Floats are accumulated in float64.
var (
	Cumsum = scanOp("cumsum", "Returns the running sums along a dimension. Bools and integers give int64 unless "+
		"`dtype` is given.", expr.Add,
		[2]scanLoops{newComplexScan(0, sumComplexRow[complex64], sumComplexColumns[complex64]),
			newComplexScan(0, sumComplexRow[complex128], sumComplexColumns[complex128])},
		func(a, b complex128) complex128 { return a + b }, func(a, b int64) int64 { return a + b })
	Cumprod = scanOp("cumprod", "Returns the running products along a dimension. Bools and integers give int64 "+
		"unless `dtype` is given.", expr.Mul,
		[2]scanLoops{newComplexScan(1, prodComplexRow[complex64], prodComplexColumns[complex64]),
			newComplexScan(1, prodComplexRow[complex128], prodComplexColumns[complex128])},
		kit.MulComplex, func(a, b int64) int64 { return a * b })
)

// scanLoops has the loops of a running sum or product (a scan) over elements of one dtype.
type scanLoops struct {
	dtype tensor.DType
	expr.Scanner
}

// newComplexScan returns the loops of a scan of complex numbers, which expressions do not support. initial is the value
// before the first element. row scans one line; columns makes one step in each of len(a) adjacent lines, whose running
// values are a.
func newComplexScan[T tensor.Element](initial complex128, row func(a *complex128, dst, x []T),
	columns func(a []complex128, dst, x []T)) scanLoops {
	return scanLoops{tensor.DTypeOf[T](), expr.Scanner{
		Carry: int(unsafe.Sizeof(initial)),
		Begin: func(acc unsafe.Pointer, n int) {
			a := unsafe.Slice((*complex128)(acc), n)
			for i := range a {
				a[i] = initial
			}
		},
		Row: func(acc, dst, x unsafe.Pointer, n int) {
			row((*complex128)(acc), unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(x), n))
		},
		Columns: func(acc, dst, x unsafe.Pointer, n int) {
			columns(unsafe.Slice((*complex128)(acc), n), unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(x), n))
		},
	}}
}

// scanLoopsOf returns the loops of a scan by op in dtype d. complexLoops has the loops for complex64 and complex128.
func scanLoopsOf(op expr.Op, d tensor.DType, complexLoops [2]scanLoops) scanLoops {
	if scanner := expr.Scanning(op, kit.LoopDType(d)); scanner != nil {
		return scanLoops{kit.LoopDType(d), *scanner}
	}
	if d == complexLoops[0].dtype {
		return complexLoops[0]
	}
	return complexLoops[1]
}

// scanOp defines a scan by op. loops has the loops for complex64 and complex128. combine is the reference function for
// floats and complex numbers, and combineInts the reference function for integers.
func scanOp(name, doc string, op expr.Op, loops [2]scanLoops, combine func(a, b complex128) complex128,
	combineInts func(a, b int64) int64) *graph.Op {
	dtype := func(c *graph.Call) tensor.DType {
		return folds.SumDType(c.Type(0).DType, kit.Attrs[cumAttrs](c).DType)
	}
	return kit.Define[cumAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Self},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				m, d := c.Type(0), dtype(c)
				if _, err := tensor.WrapDim(kit.Attrs[cumAttrs](c).Dim, m.Rank()); err != nil {
					return nil, err
				}
				if d == tensor.Bool && m.Rank() > 0 && !kit.IsEmpty(m) {
					return nil, kit.NotImplemented(name+"_out", d)
				}
				return c.NewResult(m.RowMajor().WithDType(d)), nil
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				dim, err := tensor.WrapDim(kit.Attrs[cumAttrs](c).Dim, in[0].Rank())
				if err != nil {
					return nil, err
				}
				return []*tensor.Tensor{scanReference(in[0], dim, dtype(c), combine, combineInts)}, nil
			},
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{
			WritesAnyDenseLayout: true,
			UnfusableReason:      "carries a running value from element to element in its own kernel",
		},
		Lowerings: graph.Lowerings{
			Rows: func(c *graph.Call) (*graph.Rows, error) { return scanRows(c, op, dtype(c)) },
			Impls: lineOp{
				dim:         dimOf(func(c *graph.Call) int { return kit.Attrs[cumAttrs](c).Dim }),
				elementCost: graph.ElementFlops{Simple: fusion.ScanSimple},
				lower: func(call *graph.Call, dim int, order lineOrder) (*graph.Kernel, error) {
					d := dtype(call)
					scan := scanLoopsOf(op, d, loops)
					// An expression also converts the elements; compileScan would convert them in a copy.
					if call.Meta(0).DType != scan.dtype || d != scan.dtype {
						rows := order.applyTo(func(c *graph.Call) (*graph.Rows, error) { return scanRows(c, op, d) })
						k, err := lowerSuitedRows(call, rows)
						if k != nil || err != nil {
							return k, err
						}
					}
					return compileScan(call, dim, order, d, scan)
				}}.impls(),
		},
	})
}

// scanRows returns a scan as an expression, or nil for complex numbers and 0-dimensional tensors.
func scanRows(c *graph.Call, op expr.Op, d tensor.DType) (*graph.Rows, error) {
	m := c.Meta(0)
	dim, err := tensor.WrapDim(kit.Attrs[cumAttrs](c).Dim, m.Rank())
	if err != nil || d.IsComplex() || m.Rank() == 0 {
		return nil, err
	}
	b := expr.NewBuilder(m.DType)
	x := b.Convert(kit.LoopDType(d), folds.Operand(b, 0, d).Re)
	return singleResultRows(b, lineMask(m.Rank(), dim), []int{0}, b.Scan(op, x), d)
}

// compileScan returns the kernel of a scan along dim over elements converted to dtype. The operand is first copied if
// its elements have another dtype than the loops, or are not contiguous in the given order of lines.
func compileScan(call *graph.Call, dim int, order lineOrder, dtype tensor.DType, loops scanLoops) (*graph.Kernel,
	error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	builder := copies.NewKernelBuilder(call)
	in, out := builder.Operand(0), kit.OutBuffer(call, 0)
	// The operand is [outer, n, inner]: n elements in each of inner adjacent lines. If lines are processed one after
	// another, dim is moved to the end, and inner is 1.
	n, inner := kit.SizeOf(call.Meta(0), dim), 1
	if order == lineRows {
		in, out = withDimLast(in, dim), withDimLast(out, dim)
	} else {
		inner = tensor.Numel(call.Meta(0).Shape[min(dim+1, call.Meta(0).Rank()):])
	}
	// Elements are rounded to dtype before they are converted to the dtype of the loops.
	in, result := builder.ToRowMajor(builder.ToRowMajor(in, dtype), loops.dtype), out
	if out.Meta.DType != loops.dtype || !out.Meta.IsContiguous() {
		result = builder.NewScratch(loops.dtype, out.Meta.Shape...)
	}
	// A unit of work is a block of up to columnUnit adjacent lines: unit = outer index * blocks + block.
	blocks, size := kit.DivUp(inner, columnUnit), loops.dtype.Size()
	units := out.Meta.Numel() / (n * inner) * blocks
	phase := copies.ChunkedPhase(units, n*min(inner, columnUnit), func(m *graph.Mem, begin, end int) error {
		for unit := begin; unit < end; unit++ {
			// first is the index of the first element of the first line.
			outer, firstLine := unit/blocks, unit%blocks*columnUnit
			first := outer*n*inner + firstLine
			loops.scan(m, unsafe.Add(m.Ptrs[0], first*size), unsafe.Add(m.Ptrs[1], first*size), n, inner*size,
				min(columnUnit, inner-firstLine))
		}
		return nil
	})
	builder.AddPhases(copies.NoScratch, columnUnit*loops.Carry, []kit.Buffer{result, in}, phase)
	if !result.IsPtr(0) {
		builder.AddCopies(copies.Job{Dst: out, Src: result})
	}
	k, err := builder.Kernel()
	if m := call.Meta(0); err == nil && m.DType == call.Out[0].DType && m.SameAddresses(call.Out[0]) {
		k.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	}
	return k, err
}

// withDimLast returns a buffer with a dimension moved to the end.
func withDimLast(b kit.Buffer, dim int) kit.Buffer {
	moveToEnd := func(list []int) []int {
		return append(slices.Delete(slices.Clone(list), dim, dim+1), list[dim])
	}
	if m := b.Meta; m.Rank() > 0 {
		m.Shape, m.Strides = moveToEnd(m.Shape), moveToEnd(m.Strides)
		b = b.View(m)
	}
	return b
}

// scan scans the given number of adjacent lines of n elements. The elements of a line are step bytes apart.
func (l *scanLoops) scan(mem *graph.Mem, out, in unsafe.Pointer, n, step, lines int) {
	carry := unsafe.Pointer(&mem.WorkerScratch[0])
	l.Begin(carry, lines)
	if lines == 1 && step == l.dtype.Size() {
		kit.ForEachBlock(mem.Context, n, func(begin, end int) {
			l.Row(carry, unsafe.Add(out, begin*step), unsafe.Add(in, begin*step), end-begin)
		})
		return
	}
	for i := range n {
		if i*lines%kit.CheckEvery < lines { // about once per CheckEvery elements
			mem.CheckContext()
		}
		l.Columns(carry, unsafe.Add(out, i*step), unsafe.Add(in, i*step), lines)
	}
}

// scanReference computes each result from all elements of its line up to it.
func scanReference(self *tensor.Tensor, dim int, dtype tensor.DType, combine func(a, b complex128) complex128,
	combineInts func(a, b int64) int64) *tensor.Tensor {
	self = self.CopyTo(tensor.New(dtype, self.Shape...))
	out := tensor.Zeros(dtype, self.Shape...)
	kit.EachIndex(self.Shape, func(index []int) {
		coords := append([]int(nil), index...)
		var result tensor.Scalar
		last := 0
		if len(coords) > 0 {
			last = coords[dim]
		}
		for k := range last + 1 {
			if len(coords) > 0 {
				coords[dim] = k
			}
			v := self.At(coords...)
			switch {
			case k == 0:
				result = v
			case dtype.IsIntegral(true):
				result = tensor.IntScalar(combineInts(result.Int(), v.Int()))
			default:
				result = tensor.ComplexScalar(combine(result.Complex(), v.Complex()))
			}
		}
		out.Set(result, index...)
	})
	return out
}

// The following functions are the loops of [newComplexScan]: row functions scan the line x into dst from the running
// value a on, and column functions make one step in each line i, whose running value is a[i].

func sumComplexRow[T complex64 | complex128](a *complex128, dst, x []T) {
	sum := *a
	for i, v := range x {
		sum += complex128(v)
		dst[i] = T(sum)
	}
	*a = sum
}

func prodComplexRow[T complex64 | complex128](a *complex128, dst, x []T) {
	product := *a
	for i, v := range x {
		product = kit.MulComplex(product, complex128(v))
		dst[i] = T(product)
	}
	*a = product
}

func sumComplexColumns[T complex64 | complex128](a []complex128, dst, x []T) {
	for i := range a {
		a[i] += complex128(x[i])
		dst[i] = T(a[i])
	}
}

func prodComplexColumns[T complex64 | complex128](a []complex128, dst, x []T) {
	for i := range a {
		a[i] = kit.MulComplex(a[i], complex128(x[i]))
		dst[i] = T(a[i])
	}
}
