package lower

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Contraction returns the program of a contraction of floats. Its buffers are the result, A, B, the addend if there is
// one, and the operands of the epilogue if there is one.
//
// A contraction is a batch of matrix products. If a loop changes the offset in A but not in B, it is a loop over the
// rows of a product. If it changes the offset in B but not in A, it is a loop over the columns. Summed loops are loops
// over the terms of a sum. All other loops are loops over the batch. For example, a batched product C[b,i,j] +=
// A[b,i,k]·B[b,k,j] has the loops i over rows, j over columns, k over terms, and b over the batch.
//
// A group computes a tile of rows and columns:
//
//	sums = 0                                       for several rows and columns of each thread, in registers
//	for each slice of consecutive terms            (see buildTile)
//		copy the elements of A and B to group memory (loader)
//		sums += A·B                                  (multiply)
//	store the sums                                 (storeResults)
//
// Padding is copied to group memory as zeros, so a convolution needs no im2col matrix in memory.
//
// A result is summed in order. If the device rounds fused multiply-adds once, the kernel uses them. Otherwise it uses a
// product and a sum. The size of tiles does not affect bits. A thread applies the epilogue to its results in registers.
func Contraction(source *graph.Contraction, target Target) (*Program, error) {
	generator, err := newContraction(source, target)
	if err != nil {
		return nil, err
	}
	rows, cols, batch := size(generator.rows), size(generator.cols), size(generator.batch)
	if rows*cols*batch == 0 {
		return new(Program), nil
	}
	rowTiles, colTiles := (rows+generator.tile-1)/generator.tile, (cols+generator.tile-1)/generator.tile
	groups := rowTiles * colTiles * batch
	if groups > math.MaxInt32 {
		return nil, fmt.Errorf("gpu: a product of %d tiles is %w", groups, ErrUnsupported)
	}
	// The index of a group gives its product in the batch, its row of tiles and its column of tiles. The column changes
	// fastest.
	index := generator.indexInShape(generator.Emit(ir.Group, tensor.Uint32), []int{colTiles, rowTiles, batch})
	tileCol, tileRow, batchIndex := index[0], index[1], index[2]
	generator.buildTile(tileRow, tileCol, batchIndex)
	if generator.err != nil {
		return nil, generator.err
	}
	if err := generator.Check(); err != nil {
		return nil, err
	}
	launch := Launch{Kernel: &generator.Kernel, Groups: groups}
	for _, buffer := range generator.buffers {
		launch.Args = append(launch.Args, Arg{Buffer: buffer})
	}
	return &Program{Launches: []Launch{launch}}, nil
}

// CheckContraction returns an error that wraps [ErrUnsupported] if a kernel cannot compute a contraction, or cannot
// apply its epilogue. It generates no code. Operations that the device lacks are not detected.
func CheckContraction(source *graph.Contraction, target Target) error {
	_, err := newContraction(source, target)
	return err
}

// newContraction returns the generator of a kernel. No code is generated yet.
func newContraction(source *graph.Contraction, target Target) (*contraction, error) {
	generator := &contraction{Contraction: source, sumDType: source.Out.DType.OpMath()}
	if err := generator.checkDTypes(); err != nil {
		return nil, err
	}
	if err := generator.setLoops(); err != nil {
		return nil, err
	}
	generator.buffers = []int{0, 1, 2} // the result, A and B
	if source.HasAdd {
		generator.buffers = append(generator.buffers, 3) // the addend
	}
	if source.Epilogue != nil {
		var err error
		if generator.epilogue, err = newEpilogue(source, len(generator.buffers), target); err != nil {
			return nil, err
		}
		generator.buffers = append(generator.buffers, generator.epilogue.buffers...)
	}
	if len(generator.buffers) > target.MaxParams {
		return nil, fmt.Errorf("gpu: a product with %d buffers is %w", len(generator.buffers), ErrUnsupported)
	}
	generator.scalarBuilder = scalarBuilder{Builder: ir.NewBuilder(len(generator.buffers), groupSize), target: target}
	generator.setTile(size(generator.rows), size(generator.cols), size(generator.batch))
	if generator.epilogue != nil {
		// A thread has perThread^2 results, and applies the epilogue to each.
		insts := len(generator.epilogue.code.Insts)
		if generator.perThread*generator.perThread*insts > maxEpilogue {
			return nil, fmt.Errorf("gpu: a product with %d instructions of an epilogue is %w", insts, ErrUnsupported)
		}
	}
	return generator, nil
}

// contraction generates the kernel of a contraction.
type contraction struct {
	scalarBuilder
	*graph.Contraction
	epilogue               *epilogue    // nil for none
	buffers                []int        // by parameter of the kernel: the index of its buffer
	sumDType               tensor.DType // dtype of sums
	rows, cols, sum, batch []loop       // each list begins with the fastest loop
	tile                   int          // number of rows of a tile, and number of its columns
	perThread              int          // number of rows of a thread, and number of its columns
	sliceTerms             int          // number of terms of a slice of the sum
	threadsPerSide         int          // number of threads along a side of the tile: tile/perThread
	rowsFirst              bool         // whether adjacent threads compute adjacent rows, not columns
}

// checkDTypes returns an error unless all values have the same dtype, and the dtype is summed as float32 or float64.
func (c *contraction) checkDTypes() error {
	dtype := c.Out.DType
	hasOneDType := c.A.DType == dtype && c.B.DType == dtype && (!c.HasAdd || c.Add.DType == dtype)
	isFloat := c.sumDType == tensor.Float32 || c.sumDType == tensor.Float64
	if !isFloat || !hasOneDType {
		return fmt.Errorf("gpu: a product of %v and %v with a result of %v is %w", c.A.DType, c.B.DType, dtype,
			ErrUnsupported)
	}
	return nil
}

// setTile chooses the largest size of tiles that satisfies two conditions: there is a group for each processor of the
// device, and the product fills more than half of a tile's height and width. If no size satisfies both conditions,
// setTile chooses the smallest size.
func (c *contraction) setTile(height, width, batch int) {
	const processors = 128 // the assumed number of multiprocessors
	c.tile, c.perThread, c.sliceTerms = 32, 2, 16
	// The largest size is first. A tile has groupSize threads: (tile/perThread)^2.
	for _, large := range []struct{ tile, perThread, sliceTerms int }{{128, 8, 8}, {64, 4, 16}} {
		groups := ((height + large.tile - 1) / large.tile) * ((width + large.tile - 1) / large.tile) * batch
		if groups >= processors && min(height, width) > large.tile/2 {
			c.tile, c.perThread, c.sliceTerms = large.tile, large.perThread, large.sliceTerms
			break
		}
	}
	c.threadsPerSide = c.tile / c.perThread
	// Adjacent threads store elements that are close in memory.
	c.rowsFirst = c.leastOutStride(c.rows) < c.leastOutStride(c.cols)
}

// leastOutStride returns the least stride of the result along the loops, or math.MaxInt if there are no loops.
func (c *contraction) leastOutStride(loops []loop) int {
	least := math.MaxInt
	for _, loop := range loops {
		if loop.Size > 1 {
			least = min(least, loop.Out)
		}
	}
	return least
}

// buildTile adds the code of a group: a tile of a product. tileRow and tileCol are the indices of the tile, and
// batchIndex is the index of the product in the batch.
func (c *contraction) buildTile(tileRow, tileCol, batchIndex ir.Value) {
	const u32 = tensor.Uint32
	thread := c.Emit(ir.Thread, u32)
	threadRow, threadCol := c.threadPosition(thread)
	firstRow, firstCol := c.mul32(tileRow, c.tile), c.mul32(tileCol, c.tile)
	batch := c.splitLoops(batchIndex, c.batch)
	zero := c.float(c.sumDType, 0)
	sums := make([]ir.Value, c.perThread*c.perThread)
	for i := range sums {
		sums[i] = c.Emit(ir.Var, c.sumDType, zero)
	}
	if terms := size(c.sum); terms > 0 {
		arrayA, arrayB := c.Array(c.sumDType, c.tile*c.sliceTerms), c.Array(c.sumDType, c.tile*c.sliceTerms)
		const isA, isB = true, false
		loaderA := c.newLoader(thread, firstRow, arrayA, isA, c.offsets(c.batch, batch, strideA))
		loaderB := c.newLoader(thread, firstCol, arrayB, isB, c.offsets(c.batch, batch, strideB))
		sliceStart := c.Emit(ir.Var, u32, c.u32(0)) // the first term of the slice
		c.While(func() ir.Value {
			first := c.Emit(ir.ReadVar, u32, sliceStart)
			valuesA, valuesB := loaderA.load(first), loaderB.load(first)
			c.Emit(ir.Barrier, tensor.Invalid) // all threads have multiplied the previous slice
			loaderA.store(valuesA)
			loaderB.store(valuesB)
			c.Emit(ir.Barrier, tensor.Invalid) // all threads have stored this slice
			c.multiply(sums, threadRow, threadCol, arrayA, arrayB)
			next := c.add32(first, c.u32(c.sliceTerms))
			c.Emit(ir.WriteVar, tensor.Invalid, sliceStart, next)
			return c.op(lane.Le, tensor.Bool, c.u32(terms), next)
		})
	}
	c.storeResults(sums, c.add32(firstRow, threadRow), c.add32(firstCol, threadCol), batch)
}

// threadPosition returns the first row and column of a thread in the tile. The threads form a square of
// threadsPerSide*threadsPerSide. Each computes the elements (row + i*threadsPerSide, col + j*threadsPerSide) of the
// tile, for i and j below perThread. threadsPerSide is a power of two.
func (c *contraction) threadPosition(thread ir.Value) (row, col ir.Value) {
	slow := c.quotient(thread, c.threadsPerSide)
	fast := c.op(lane.And, tensor.Uint32, thread, c.u32(c.threadsPerSide-1))
	if c.rowsFirst {
		return fast, slow
	}
	return slow, fast
}

// multiply adds the products of a slice of the sum to sums. In arrayA, the element of term t and row i of the tile is
// at index t*tile + i. In arrayB, the element of term t and column i is at this index.
func (c *contraction) multiply(sums []ir.Value, threadRow, threadCol ir.Value, arrayA, arrayB uint64) {
	load := func(array uint64, term, i int, first ir.Value) ir.Value {
		return c.EmitImm(ir.LoadShared, c.sumDType, array, c.add32(first, c.u32(term*c.tile+i*c.threadsPerSide)))
	}
	roundsOnce := c.target.FMA32 && c.sumDType == tensor.Float32 || c.target.FMA64 && c.sumDType == tensor.Float64
	for term := range c.sliceTerms {
		var rows, cols []ir.Value
		for i := range c.perThread {
			rows, cols = append(rows, load(arrayA, term, i, threadRow)), append(cols, load(arrayB, term, i, threadCol))
		}
		for i, a := range rows {
			for j, b := range cols {
				sum := sums[i*c.perThread+j]
				partial := c.Emit(ir.ReadVar, c.sumDType, sum)
				if roundsOnce {
					partial = c.op(lane.FMA, c.sumDType, a, b, partial)
				} else {
					partial = c.op(lane.Add, c.sumDType, partial, c.op(lane.Mul, c.sumDType, a, b))
				}
				c.Emit(ir.WriteVar, tensor.Invalid, sum, partial)
			}
		}
	}
}

// storeResults stores the results of a thread: alpha*sum + beta*addend, or the epilogue of this value. firstRow and
// firstCol are the thread's first row and column. Rows and columns beyond the product are skipped.
func (c *contraction) storeResults(sums []ir.Value, firstRow, firstCol ir.Value, batch []ir.Value) {
	// An offset in the result (out) or the addend (add) is the sum of the offsets of the batch, the row and the column.
	// The offsets of the columns are computed once.
	outBatch := c.offsets(c.batch, batch, strideOut)
	addBatch := c.offsets(c.batch, batch, strideAdd)
	type column struct{ isValid, outOffset, addOffset ir.Value }
	var cols []column
	for j := range c.perThread {
		col := c.add32(firstCol, c.u32(j*c.threadsPerSide))
		index := c.splitLoops(col, c.cols)
		cols = append(cols, column{isValid: c.isLess(col, size(c.cols)), outOffset: c.offsets(c.cols, index, strideOut),
			addOffset: c.offsets(c.cols, index, strideAdd)})
	}
	for i := range c.perThread {
		row := c.add32(firstRow, c.u32(i*c.threadsPerSide))
		index := c.splitLoops(row, c.rows)
		c.If(c.isLess(row, size(c.rows)), func() {
			outRow := c.add32(outBatch, c.offsets(c.rows, index, strideOut))
			addRow := c.add32(addBatch, c.offsets(c.rows, index, strideAdd))
			for j, col := range cols {
				c.If(col.isValid, func() {
					value := c.Emit(ir.ReadVar, c.sumDType, sums[i*c.perThread+j])
					value = c.scaleAndAdd(value, addRow, col.addOffset)
					value = c.convert(c.Out.DType, c.sumDType, value)
					c.storeResult(value, c.add32(outRow, col.outOffset))
				})
			}
		})
	}
}

// scaleAndAdd returns alpha*sum + beta*addend, where the addend is at offset addRow + addCol.
func (c *contraction) scaleAndAdd(sum, addRow, addCol ir.Value) ir.Value {
	const addendParam = 3
	if c.Alpha != 1 {
		sum = c.op(lane.Mul, c.sumDType, sum, c.float(c.sumDType, c.Alpha))
	}
	if !c.HasAdd || c.Beta == 0 {
		return sum
	}
	address := c.elementAddress(addendParam, c.add32(addRow, addCol), c.Out.DType.Size())
	addend := c.convert(c.sumDType, c.Out.DType, c.scalarBuilder.load(oneElement(c.Out.DType), address)[0])
	if c.Beta != 1 {
		addend = c.op(lane.Mul, c.sumDType, addend, c.float(c.sumDType, c.Beta))
	}
	return c.op(lane.Add, c.sumDType, sum, addend)
}

// storeResult stores a value, or its epilogue, at an element offset of the result.
func (c *contraction) storeResult(value, offset ir.Value) {
	const resultParam = 0
	if c.epilogue != nil {
		c.epilogue.storeOutputs(&c.scalarBuilder, value, offset)
		return
	}
	dtype := c.Out.DType
	c.scalarBuilder.store(oneElement(dtype), c.elementAddress(resultParam, offset, dtype.Size()), []ir.Value{value})
}
