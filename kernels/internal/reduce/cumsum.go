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

// Cumsum and Cumprod are running sums and products, called scans here. Result i of a line combines its elements 0 to i:
// cumsum of the line [1, 2, 3] is [1, 3, 6]. Floats are accumulated in float64.
//
// There are three dtypes: the dtype of self, the dtype of the result, and the dtype of the loops, in which elements are
// read and written. For the cumsum of int32 they are int32, int64 and int64, and for bfloat16 they are bfloat16,
// bfloat16 and float32. A call is lowered in one of two ways. If the dtypes differ, scan.rows makes an expression,
// which also converts the elements, for suitable rows of real numbers. Otherwise compileScan makes a kernel that runs
// [scanLoops] over blocks of adjacent lines ([lineBlocks]).
var (
	Cumsum = scanOp("Returns the running sums along a dimension. Bools and integers give int64 unless `dtype` is given.",
		scan{name: "cumsum", op: expr.Add,
			complexLoops: [2]scanLoops{complexScanLoops(0, sumComplexRow[complex64], sumComplexColumns[complex64]),
				complexScanLoops(0, sumComplexRow[complex128], sumComplexColumns[complex128])},
			combine:     func(a, b complex128) complex128 { return a + b },
			combineInts: func(a, b int64) int64 { return a + b }})
	Cumprod = scanOp("Returns the running products along a dimension. Bools and integers give int64 unless `dtype` is "+
		"given.",
		scan{name: "cumprod", op: expr.Mul,
			complexLoops: [2]scanLoops{complexScanLoops(1, prodComplexRow[complex64], prodComplexColumns[complex64]),
				complexScanLoops(1, prodComplexRow[complex128], prodComplexColumns[complex128])},
			combine:     kit.MulComplex,
			combineInts: func(a, b int64) int64 { return a * b }})
)

// scan describes a scan op.
type scan struct {
	name         string
	op           expr.Op                          // combines real numbers
	complexLoops [2]scanLoops                     // for complex64 and complex128
	combine      func(a, b complex128) complex128 // the reference for floats and complex numbers
	combineInts  func(a, b int64) int64           // the reference for integers
}

// scanOp defines a scan op.
func scanOp(doc string, s scan) *graph.Op {
	return kit.Define[*cumAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: s.name, Doc: doc, Params: []graph.Param{kit.Self}, Infer: s.infer, Ref: s.ref,
			Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{
			WritesAnyDenseLayout: true,
			UnfusableReason:      "carries a running value from element to element in its own kernel",
		},
		Lowerings: graph.Lowerings{
			Rows: s.rows,
			Impls: lineOp{
				dim:         dimOf(func(c *graph.Call) int { return kit.Attrs[*cumAttrs](c).Dim }),
				elementCost: graph.ElementFlops{Simple: fusion.ScanSimple},
				lower:       s.lower,
			}.impls(),
		},
	})
}

// resultDType returns the dtype of the result, to which the elements are converted first.
func (scan) resultDType(c *graph.Call) tensor.DType {
	return folds.SumDType(c.Type(0).DType, kit.Attrs[*cumAttrs](c).DType)
}

func (s scan) infer(c *graph.Call) ([]graph.Result, error) {
	selfType, dtype := c.Type(0), s.resultDType(c)
	if _, err := tensor.WrapDim(kit.Attrs[*cumAttrs](c).Dim, selfType.Rank()); err != nil {
		return nil, err
	}
	if dtype == tensor.Bool && selfType.Rank() > 0 && !kit.IsEmpty(selfType) {
		return nil, kit.NotImplemented(s.name+"_out", dtype)
	}
	return c.NewResult(selfType.RowMajor().WithDType(dtype)), nil
}

// lower implements [graph.Impl.Lower] for lines along dim.
func (s scan) lower(call *graph.Call, dim int, order lineOrder) (*graph.Kernel, error) {
	dtype := s.resultDType(call)
	loops := s.loops(dtype)
	needsConversion := call.Meta(0).DType != loops.dtype || dtype != loops.dtype
	if needsConversion { // by the expression: compileScan would convert the elements in a copy
		kernel, err := compileOrInterpretSuitedRows(call, order.applyTo(s.rows))
		if kernel != nil || err != nil {
			return kernel, err
		}
	}
	return compileScan(call, dim, order, dtype, loops)
}

// rows returns a scan as an expression, or nil for complex numbers and 0-dimensional tensors.
func (s scan) rows(c *graph.Call) (*graph.Rows, error) {
	meta, dtype := c.Meta(0), s.resultDType(c)
	dim, err := tensor.WrapDim(kit.Attrs[*cumAttrs](c).Dim, meta.Rank())
	if err != nil || dtype.IsComplex() || meta.Rank() == 0 {
		return nil, err
	}
	builder := expr.NewBuilder(meta.DType)
	x := builder.Convert(kit.LoopDType(dtype), folds.Operand(builder, 0, dtype).Re)
	return singleResultRows(builder, lineMask(meta.Rank(), dim), []int{0}, builder.Scan(s.op, x), dtype)
}

// scanLoops has the loops of a scan. Row scans elements of one line. Columns makes one step in each of several adjacent
// lines. A carry is the running value of a line, and has the size Carry in bytes; Begin sets carries to 0 or 1.
type scanLoops struct {
	dtype tensor.DType // dtype of the elements that the loops read and write
	expr.Scanner
}

// loops returns the loops for a dtype.
func (s scan) loops(dtype tensor.DType) scanLoops {
	if scanner := expr.Scanning(s.op, kit.LoopDType(dtype)); scanner != nil {
		return scanLoops{kit.LoopDType(dtype), *scanner}
	}
	if dtype == tensor.Complex64 {
		return s.complexLoops[0]
	}
	return s.complexLoops[1]
}

// compileScan returns the kernel of a scan along dim over elements converted to dtype. The operand is first copied if
// its elements have another dtype than the loops, or are not contiguous in the given order of lines.
func compileScan(call *graph.Call, dim int, order lineOrder, dtype tensor.DType, loops scanLoops) (*graph.Kernel,
	error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	builder := copies.NewKernelBuilder(call)
	operand, out := builder.Operand(0), kit.OutBuffer(call, 0)
	lineLength := kit.SizeOrMissing(call.Meta(0), dim)
	inner := 1             // distance in elements between the elements of a line; see lineBlocks
	if order == lineRows { // lines are contiguous
		operand, out = withDimLast(operand, dim), withDimLast(out, dim)
	} else {
		inner = tensor.Numel(call.Meta(0).Shape[min(dim+1, call.Meta(0).Rank()):])
	}
	// Elements are rounded to dtype before they are converted to the dtype of the loops.
	scanned := builder.ToRowMajor(builder.ToRowMajor(operand, dtype), loops.dtype)
	result := out // the loops write result
	if out.Meta.DType != loops.dtype || !out.Meta.IsContiguous() {
		result = builder.NewScratch(loops.dtype, out.Meta.Shape...)
	}
	blocks, elementBytes := newLineBlocks(out.Meta.Numel(), lineLength, inner), loops.dtype.Size()
	phase := copies.ChunkedPhase(blocks.count, blocks.maxElements(), func(mem *graph.Mem, begin, end int) error {
		for block := begin; block < end; block++ {
			first, lines := blocks.position(block)
			dst, src := unsafe.Add(mem.Ptrs[0], first*elementBytes), unsafe.Add(mem.Ptrs[1], first*elementBytes)
			loops.scanBlock(mem, dst, src, lineLength, inner*elementBytes, lines)
		}
		return nil
	})
	carryBytes := columnUnit * loops.Carry // of the lines of a block
	builder.AddPhases(copies.NoScratch, carryBytes, []kit.Buffer{result, scanned}, phase)
	if !result.IsPtr(0) { // result is scratch memory
		builder.AddCopies(copies.Job{Dst: out, Src: result})
	}
	kernel, err := builder.Kernel()
	if self := call.Meta(0); err == nil && self.DType == call.Out[0].DType && self.SameAddresses(call.Out[0]) {
		kernel.InPlace = []graph.InPlace{{Out: 0, In: 0}}
	}
	return kernel, err
}

// withDimLast returns a buffer with a dimension moved to the end.
func withDimLast(buffer kit.Buffer, dim int) kit.Buffer {
	moveToEnd := func(list []int) []int {
		return append(slices.Delete(slices.Clone(list), dim, dim+1), list[dim])
	}
	if meta := buffer.Meta; meta.Rank() > 0 {
		meta.Shape, meta.Strides = moveToEnd(meta.Shape), moveToEnd(meta.Strides)
		buffer = buffer.View(meta)
	}
	return buffer
}

// scanBlock scans a block: the given number of adjacent lines of lineLength elements. The elements of a line are
// stepBytes apart. Worker memory has the carries.
func (l *scanLoops) scanBlock(mem *graph.Mem, out, in unsafe.Pointer, lineLength, stepBytes, lines int) {
	carry := unsafe.Pointer(&mem.WorkerScratch[0])
	l.Begin(carry, lines)
	if lines == 1 && stepBytes == l.dtype.Size() {
		kit.ForEachBlock(mem.Context, lineLength, func(begin, end int) {
			l.Row(carry, unsafe.Add(out, begin*stepBytes), unsafe.Add(in, begin*stepBytes), end-begin)
		})
		return
	}
	for i := range lineLength {
		if i*lines%kit.CheckEvery < lines { // about once per CheckEvery elements
			mem.CheckContext()
		}
		l.Columns(carry, unsafe.Add(out, i*stepBytes), unsafe.Add(in, i*stepBytes), lines)
	}
}

// ref computes each result separately, from the elements of its line up to the position of the result.
func (s scan) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	self, dtype := in[0], s.resultDType(c)
	dim, err := tensor.WrapDim(kit.Attrs[*cumAttrs](c).Dim, self.Rank())
	if err != nil {
		return nil, err
	}
	self = self.CopyTo(tensor.New(dtype, self.Shape...))
	out := tensor.Zeros(dtype, self.Shape...)
	kit.EachIndex(self.Shape, func(index []int) {
		elementIndex := slices.Clone(index)
		var result tensor.Scalar
		last := 0
		if len(elementIndex) > 0 {
			last = elementIndex[dim]
		}
		for position := range last + 1 {
			if len(elementIndex) > 0 {
				elementIndex[dim] = position
			}
			element := self.At(elementIndex...)
			switch {
			case position == 0:
				result = element
			case dtype.IsIntegral(true):
				result = tensor.IntScalar(s.combineInts(result.Int(), element.Int()))
			default:
				result = tensor.ComplexScalar(s.combine(result.Complex(), element.Complex()))
			}
		}
		out.Set(result, index...)
	})
	return []*tensor.Tensor{out}, nil
}

// complexScanLoops returns the loops of a scan of complex numbers, which expressions do not support. initial is the
// value before the first element. row scans one line. columns makes one step in each of several adjacent lines. running
// has the running value of each line.
func complexScanLoops[T tensor.Element](initial complex128, row func(running *complex128, dst, x []T),
	columns func(running []complex128, dst, x []T)) scanLoops {
	return scanLoops{tensor.DTypeOf[T](), expr.Scanner{
		Carry: int(unsafe.Sizeof(initial)),
		Begin: func(carry unsafe.Pointer, lines int) {
			running := unsafe.Slice((*complex128)(carry), lines)
			for i := range running {
				running[i] = initial
			}
		},
		Row: func(carry, dst, x unsafe.Pointer, n int) {
			row((*complex128)(carry), unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(x), n))
		},
		Columns: func(carry, dst, x unsafe.Pointer, lines int) {
			columns(unsafe.Slice((*complex128)(carry), lines), unsafe.Slice((*T)(dst), lines), unsafe.Slice((*T)(x), lines))
		},
	}}
}

// The following functions are the loops of [complexScanLoops]. Row functions scan the line x into dst, from the running
// value on. Column functions make one step in each line i, whose running value is running[i].

func sumComplexRow[T complex64 | complex128](running *complex128, dst, x []T) {
	sum := *running
	for i, element := range x {
		sum += complex128(element)
		dst[i] = T(sum)
	}
	*running = sum
}

func prodComplexRow[T complex64 | complex128](running *complex128, dst, x []T) {
	product := *running
	for i, element := range x {
		product = kit.MulComplex(product, complex128(element))
		dst[i] = T(product)
	}
	*running = product
}

func sumComplexColumns[T complex64 | complex128](running []complex128, dst, x []T) {
	for i := range running {
		running[i] += complex128(x[i])
		dst[i] = T(running[i])
	}
}

func prodComplexColumns[T complex64 | complex128](running []complex128, dst, x []T) {
	for i := range running {
		running[i] = kit.MulComplex(running[i], complex128(x[i]))
		dst[i] = T(running[i])
	}
}
