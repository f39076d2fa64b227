package reduce

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Scans are running sums and products (cumsum.go). This file has the kernel of scans that are not computed by an
// expression. The kernel runs [scanLoops] over blocks of adjacent lines ([lineBlocks]).

// scanLoops has the loops of a scan. Row scans elements of one line. Columns makes one step in several adjacent lines.
// A carry is the running value of a line. Carry is the size of a carry in bytes. Begin sets carries to 0 or 1.
type scanLoops struct {
	dtype tensor.DType // dtype of the elements that the loops read and write
	expr.Scanner
}

// scanLoopsOf returns the loops of a scan with results of the given dtype. op is Add or Mul.
func scanLoopsOf(op expr.Op, dtype tensor.DType) scanLoops {
	if scanner := expr.Scanning(op, kit.LoopDType(dtype)); scanner != nil {
		return scanLoops{kit.LoopDType(dtype), *scanner}
	}
	if dtype == tensor.Complex64 {
		return complexScanLoops[complex64](op)
	}
	return complexScanLoops[complex128](op)
}

// compileScan returns the kernel of a scan along dim over elements converted to dtype. The operand is first copied if
// its elements have another dtype than the loops, or are not contiguous in the given direction.
func compileScan(call *graph.Call, dim int, direction graph.RowDirection, dtype tensor.DType,
	loops scanLoops) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	builder := copies.NewKernelBuilder(call)
	operand, out := builder.Operand(0), kit.OutBuffer(call, 0)
	lineLength := kit.SizeOrMissing(call.Meta(0), dim)
	inner := 1                     // distance between the elements of a line, in elements; see lineBlocks
	if direction == graph.ByRows { // lines are contiguous
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
	carryBytes := columnUnit * loops.Carry // a block has at most columnUnit lines
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
