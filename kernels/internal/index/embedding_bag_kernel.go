package index

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// A bag is a sequence of adjacent indices, whose rows of the weight are reduced to one row of the result. For example,
// the indices [4 1 3 0] with the offsets [0 3] are the bags [4 1 3] and [0]. For the sum, the result has two rows:
//
//	result[0] = weight[4] + weight[1] + weight[3]
//	result[1] = weight[0]
//
// The scales are the factors of the rows of a sum, one for each index (operand per_sample_weights).

type embeddingBagAttrs struct {
	ScaleGradByFreq   bool `attr:"scale_grad_by_freq" default:"false" doc:"affects gradients only; ignored"`
	Mode              int  `attr:"mode" default:"0" doc:"0: sum; 1: mean; 2: maximum"`
	Sparse            bool `attr:"sparse" default:"false" doc:"affects gradients only; ignored"`
	IncludeLastOffset bool `attr:"include_last_offset" default:"false" doc:"the last offset is the end of the last bag; if indices is a matrix, its last row is ignored"`
	PaddingIdx        *int `attr:"padding_idx" default:"none" range:"int64" doc:"rows with this index are left out; a negative index counts from the end"`
}

const (
	bagSum = iota
	bagMean
	bagMax
)

// Indices of the operands of embedding_bag.
const (
	bagWeight = iota
	bagIndices
	bagOffsets
	bagScales // per_sample_weights
)

const (
	// bagColumns is the number of columns that a bag reduces at once: a row of sums stays in the first-level cache.
	bagColumns = 1024
	// bagIndexBlock is the number of indices that are converted at once.
	bagIndexBlock = 128
	// bagChunkElements is the number of elements of the weight that a chunk reads, if all bags have the mean size.
	bagChunkElements = 1 << 15
	// bagElementBytes is the size of an index, and the maximum size of a sum.
	bagElementBytes = 8
	// bagWorkerBytes is the memory of a bagWorker: four arrays, each aligned to a cache line of 64 bytes.
	bagWorkerBytes = (2*bagColumns+2*bagIndexBlock)*bagElementBytes + 4*64
)

// compileEmbeddingBag implements [graph.Lowerings.Compile] for embedding_bag.
func compileEmbeddingBag(c *graph.Call) (*graph.Kernel, error) {
	if c.Out[0].DType == tensor.Float64 {
		return newBagReducer[float64](c, tensor.Float64).kernel(), nil
	}
	return newBagReducer[float32](c, tensor.Float32).kernel(), nil
}

// bagReducer computes embedding_bag with sums of type T. It reduces bag by bag (reduceBag), a range of columns at a
// time (reduceColumns), and a block of indices at a time (addRows). For the maximum, the sums are maxima.
type bagReducer[T float32 | float64] struct {
	dtype                                 tensor.DType // the dtype of T
	out, weight, indices, offsets, scales kit.Buffer
	mode                                  int         // bagSum, bagMean or bagMax
	paddingRow                            int64       // row of the weight that is omitted, or -1
	bags                                  int         // number of bags
	loadRow, loadIndices, loadScales      strided.Row // convert elements for the computation
	store                                 strided.Row // converts sums to elements of the result
}

// newBagReducer describes a call.
func newBagReducer[T float32 | float64](c *graph.Call, dtype tensor.DType) *bagReducer[T] {
	r := &bagReducer[T]{dtype: dtype, out: kit.OutBuffer(c, 0), weight: kit.InBuffer(c, bagWeight),
		indices: kit.InBuffer(c, bagIndices), mode: kit.Attrs[*embeddingBagAttrs](c).Mode, paddingRow: paddingRow(c),
		bags: c.Out[0].Shape[0]}
	if c.HasOperand(bagOffsets) {
		r.offsets = kit.InBuffer(c, bagOffsets)
	}
	if c.HasOperand(bagScales) {
		r.scales = kit.InBuffer(c, bagScales)
		r.loadScales = kit.RowConverter(dtype, r.scales.Meta.DType)
	}
	r.loadRow, r.store = kit.RowConverter(dtype, r.weight.Meta.DType), kit.RowConverter(r.out.Meta.DType, dtype)
	r.loadIndices = strided.Row(tensor.Converter(tensor.Int64, r.indices.Meta.DType))
	return r
}

// kernel returns the kernel of the call. Its first phase, if there are offsets, checks the offsets.
func (r *bagReducer[T]) kernel() *graph.Kernel {
	kernel := &graph.Kernel{WorkerScratch: bagWorkerBytes}
	if r.offsets.IsGiven() {
		kernel.Phases = append(kernel.Phases, graph.Phase{Chunks: 1, Run: r.checkOffsets})
	}
	elementsPerBag := kit.BoundedProduct(r.indices.Meta.Numel(), max(r.weight.Meta.Shape[1], 1)) / max(r.bags, 1)
	bagsPerChunk := max(bagChunkElements/max(elementsPerBag, 1), 1)
	kernel.Phases = append(kernel.Phases, graph.Phase{Chunks: kit.DivUp(r.bags, bagsPerChunk),
		Run: func(m *graph.Mem, chunk int) error {
			worker := newBagWorker[T](m)
			for bag := chunk * bagsPerChunk; bag < min((chunk+1)*bagsPerChunk, r.bags); bag++ {
				if err := r.reduceBag(worker, bag); err != nil {
					return err
				}
			}
			return nil
		}})
	return kernel
}

// checkOffsets is the phase that checks the offsets.
func (r *bagReducer[T]) checkOffsets(m *graph.Mem, _ int) error {
	previous, offsets := int64(0), r.offsets.Meta.Numel()
	for i := range offsets {
		if i%bagChunkElements == bagChunkElements-1 {
			m.CheckContext()
		}
		offset := r.offset(m, i)
		if err := checkOffset(i, offsets, offset, previous, r.indices.Meta.Numel()); err != nil {
			return err
		}
		previous = offset
	}
	return nil
}

// offset returns element i of the offsets.
func (r *bagReducer[T]) offset(m *graph.Mem, i int) (offset int64) {
	step := kit.ByteStride(r.offsets.Meta, 0)
	load := tensor.Converter(tensor.Int64, r.offsets.Meta.DType)
	const unusedStep, n = 0, 1
	load(unsafe.Pointer(&offset), unsafe.Add(r.offsets.Address(m), i*step), unusedStep, unusedStep, n)
	return offset
}

// bagWorker is the memory of a worker: parts of a row of sums and of a row of the weight, and a block of indices with
// their scales.
type bagWorker[T float32 | float64] struct {
	mem       *graph.Mem
	sums, row []T
	rowCount  int // number of rows that were added to sums
	scales    []T
	indices   []int64
}

// newBagWorker takes the memory of a worker from its scratch memory.
func newBagWorker[T float32 | float64](mem *graph.Mem) *bagWorker[T] {
	region := kit.RegionOf(mem.WorkerScratch)
	take := func(n int) []T { return kit.ElementsOf[T](region.Take(bagElementBytes*n), n) }
	return &bagWorker[T]{mem: mem, sums: take(bagColumns), row: take(bagColumns), scales: take(bagIndexBlock),
		indices: kit.ElementsOf[int64](region.Take(bagElementBytes*bagIndexBlock), bagIndexBlock)}
}

// columnRange is a range of columns of the weight and of the result.
type columnRange struct{ first, count int }

// reduceBag computes the row of the result for a bag, in ranges of at most bagColumns columns.
func (r *bagReducer[T]) reduceBag(worker *bagWorker[T], bag int) error {
	operands := r.operandsOf(worker.mem, bag)
	out, rowStep, columnStep := r.out.Address(worker.mem), kit.ByteStride(r.out.Meta, 0), kit.ByteStride(r.out.Meta, 1)
	allColumns := r.out.Meta.Shape[1]
	// Without columns, one iteration still checks the indices.
	for first := 0; first == 0 || first < allColumns; first += bagColumns {
		columns := columnRange{first: first, count: min(allColumns-first, bagColumns)}
		if err := r.reduceColumns(worker, operands, columns); err != nil {
			return err
		}
		dst := unsafe.Add(out, bag*rowStep+first*columnStep)
		r.store(dst, unsafe.Pointer(&worker.sums[0]), columnStep, r.dtype.Size(), columns.count)
	}
	return nil
}

// bagOperands are the indices of a bag and their scales.
type bagOperands struct {
	count                int            // number of indices
	indices, scales      unsafe.Pointer // addresses of the first index and the first scale; scales may be nil
	indexStep, scaleStep int            // bytes between neighbours
}

// operandsOf returns the indices of a bag and their scales: a row of the operands or, with offsets, a part of a vector.
func (r *bagReducer[T]) operandsOf(mem *graph.Mem, bag int) bagOperands {
	lastDim := r.indices.Meta.Rank() - 1
	begin, end := 0, r.indices.Meta.Shape[lastDim]
	if r.offsets.IsGiven() {
		begin = int(r.offset(mem, bag))
		if bag+1 < r.offsets.Meta.Shape[0] {
			end = int(r.offset(mem, bag+1))
		}
	}
	address := func(buffer *kit.Buffer) (first unsafe.Pointer, step int) {
		if !buffer.IsGiven() {
			return nil, 0
		}
		first, step = buffer.Address(mem), kit.ByteStride(buffer.Meta, lastDim)
		if !r.offsets.IsGiven() {
			first = unsafe.Add(first, bag*kit.ByteStride(buffer.Meta, 0))
		}
		return unsafe.Add(first, begin*step), step
	}
	operands := bagOperands{count: end - begin}
	operands.indices, operands.indexStep = address(&r.indices)
	operands.scales, operands.scaleStep = address(&r.scales)
	return operands
}

// reduceColumns reduces some columns of the rows of a bag to the worker's sums, block after block of indices.
func (r *bagReducer[T]) reduceColumns(worker *bagWorker[T], operands bagOperands, columns columnRange) error {
	sums := worker.sums[:columns.count]
	worker.mem.CheckContextAfter(max(columns.count, 1))
	clear(sums)
	worker.rowCount = 0
	for processed := 0; processed < operands.count; processed += bagIndexBlock {
		blockCount := min(operands.count-processed, bagIndexBlock)
		r.loadIndices(unsafe.Pointer(&worker.indices[0]), unsafe.Add(operands.indices, processed*operands.indexStep),
			bagElementBytes, operands.indexStep, blockCount)
		if operands.scales != nil {
			r.loadScales(unsafe.Pointer(&worker.scales[0]), unsafe.Add(operands.scales, processed*operands.scaleStep),
				r.dtype.Size(), operands.scaleStep, blockCount)
		}
		if err := r.addRows(worker, columns, blockCount); err != nil {
			return err
		}
	}
	if r.mode == bagMean && worker.rowCount > 0 {
		for j, x := range sums {
			sums[j] = x / T(worker.rowCount)
		}
	}
	return nil
}

// addRows adds the rows of the weight at the first indexCount indices of the worker to its sums, for some columns.
// For the maximum, the first row of a bag replaces the sums.
func (r *bagReducer[T]) addRows(worker *bagWorker[T], columns columnRange, indexCount int) error {
	weightMeta, isScaled := r.weight.Meta, r.scales.IsGiven()
	row, sums := worker.row[:columns.count], worker.sums[:columns.count]
	for k, index := range worker.indices[:indexCount] {
		worker.mem.CheckContextAfter(max(columns.count, 1))
		if err := checkRow(index, weightMeta.Shape[0]); err != nil {
			return err
		}
		if index == r.paddingRow {
			continue
		}
		src := unsafe.Add(r.weight.Address(worker.mem),
			int(index)*kit.ByteStride(weightMeta, 0)+columns.first*kit.ByteStride(weightMeta, 1))
		if columns.count > 0 {
			r.loadRow(unsafe.Pointer(&row[0]), src, r.dtype.Size(), kit.ByteStride(weightMeta, 1), columns.count)
		}
		switch {
		case r.mode == bagMax && worker.rowCount == 0:
			copy(sums, row)
		case r.mode == bagMax:
			for j, x := range row {
				if x > sums[j] {
					sums[j] = x
				}
			}
		case isScaled:
			for j, x := range row {
				sums[j] += T(worker.scales[k] * x) // the conversion prevents a fused product and sum
			}
		default:
			for j, x := range row {
				sums[j] += x
			}
		}
		worker.rowCount++
	}
	return nil
}

// paddingRow returns the index of padding, or -1 if there is none.
func paddingRow(c *graph.Call) int64 {
	padding := kit.Attrs[*embeddingBagAttrs](c).PaddingIdx
	switch {
	case padding == nil:
		return -1
	case *padding < 0:
		return int64(*padding + c.Meta(bagWeight).Shape[0])
	}
	return int64(*padding)
}

// checkOffset returns an error if offset i is not the start of a bag. previous is offset i-1, or 0 if i is 0.
func checkOffset(i, offsetCount int, offset, previous int64, indexCount int) error {
	switch {
	case i == 0 && offset != 0:
		return fmt.Errorf("offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "+
			"However, got %d", offset)
	case i == offsetCount-1 && offset > int64(indexCount):
		return fmt.Errorf("offsets[-1] can not be greater than input's length %d but got offsets[-1] of %d", indexCount,
			offset)
	case offset < previous:
		return fmt.Errorf("embedding_bag: offsets must not decrease, but offsets[%d] is %d after %d", i, offset, previous)
	}
	return nil
}

// checkRow returns an error if an index is not the index of one of the rows of the weight.
func checkRow(index int64, rows int) error {
	if index < 0 || index >= int64(rows) {
		return fmt.Errorf("embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be %d", index)
	}
	return nil
}
