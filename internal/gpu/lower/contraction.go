package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Contraction returns the program of a contraction of floats. Its buffers are the result, A, B, the addend if there is
// one, and the operands of the epilogue if there is one.
//
// A contraction is a batch of matrix products. A loop that changes only the offset in A is a loop over the rows of a
// product. A loop that changes only the offset in B is a loop over the columns. Summed loops are loops over the terms
// of a sum. All other loops are loops over the batch. For example, a batched product C[b,i,j] += A[b,i,k]·B[b,k,j] has
// the loop i over rows, j over columns, k over terms and b over the batch.
//
// A group computes a tile of rows and columns:
//
//	sums = 0                                       for several rows and columns of each thread, in registers
//	for each slice of consecutive terms            (see buildTile)
//		copy the elements of A and B to group memory (loader)
//		sums += A·B                                  (multiply)
//	store the sums                                 (storeResults)
//
// Elements outside of the windows of a convolution are copied as zeros, so the windows need not be materialized in
// memory (no im2col).
//
// A result is summed in order, by fused multiply-adds if the device rounds them once, else by a product and a sum. The
// size of tiles does not affect bits. A thread applies the epilogue to its results in registers.
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
	// The groups compute the tiles in the order (product of the batch, row of tiles, column of tiles), columns fastest.
	tile := generator.indexInShape(generator.Emit(ir.Group, tensor.Uint32), []int{colTiles, rowTiles, batch})
	generator.buildTile(tile[1], tile[0], tile[2])
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
		generator.buffers = append(generator.buffers, 3)
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
		// A thread has perThread^2 results, and an epilogue for each.
		insts := len(generator.epilogue.code.Insts)
		if generator.perThread*generator.perThread*insts > maxEpilogue {
			return nil, fmt.Errorf("gpu: a product with %d instructions of an epilogue is %w", insts, ErrUnsupported)
		}
	}
	return generator, nil
}

// contraction generates the kernel of a contraction. A graph.ContractionLoop has a Size, and strides in elements: Out
// in the result, A and B in the factors, and Add in the addend. A window of a convolution moves over a dimension of A:
// the loop Result runs over its positions, and the summed loop Tap runs within the window.
type contraction struct {
	scalarBuilder
	*graph.Contraction
	epilogue               *epilogue               // nil for none
	buffers                []int                   // by parameter of the kernel: the index of its buffer
	sumDType               tensor.DType            // dtype of sums
	rows, cols, sum, batch []graph.ContractionLoop // each from the fastest loop to the slowest
	rowLoops, sumLoops     []int                   // for each element of rows and of sum, the index of the loop in Loops
	tile                   int                     // number of rows, and of columns, of a tile
	perThread              int                     // number of rows, and of columns, of a thread
	sliceTerms             int                     // number of terms of a slice of the sum
	threadsPerSide         int                     // number of threads along a side of the tile: tile/perThread
	rowsFirst              bool                    // whether adjacent threads compute adjacent rows, not columns
}

// checkDTypes returns an error unless all values have one dtype, which is summed as float32 or float64.
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

// size returns the number of iterations of nested loops.
func size(loops []graph.ContractionLoop) int {
	product := 1
	for _, loop := range loops {
		product *= loop.Size
	}
	return product
}

// setLoops sorts the loops into rows, cols, sum and batch. It merges adjacent loops that one loop can replace, except
// for the loops of windows. It returns the error of checkStrides.
func (c *contraction) setLoops() error {
	if err := c.checkStrides(); err != nil {
		return err
	}
	inWindow := map[int]bool{}
	for _, window := range c.Windows {
		inWindow[window.Result], inWindow[window.Tap] = true, true
	}
	// add adds loop i to a list, or merges it with the last loop of the list.
	add := func(list *[]graph.ContractionLoop, indices *[]int, i int) {
		loop := c.Loops[i]
		if last := len(*list) - 1; last >= 0 && !inWindow[i] && !inWindow[(*indices)[last]] {
			if faster := &(*list)[last]; continues(loop, *faster) {
				faster.Size *= loop.Size
				return
			}
		}
		*list, *indices = append(*list, loop), append(*indices, i)
	}
	var colLoops, batchLoops []int
	for i, loop := range slices.Backward(c.Loops) {
		switch {
		case loop.Size == 1 && !inWindow[i]: // its index is always 0
		case loop.Summed:
			add(&c.sum, &c.sumLoops, i)
		case inWindow[i] || loop.B == 0 && loop.A != 0: // window positions, or a loop over A but not B
			add(&c.rows, &c.rowLoops, i)
		case loop.A == 0:
			add(&c.cols, &colLoops, i)
		default:
			add(&c.batch, &batchLoops, i)
		}
	}
	return nil
}

// checkStrides returns an error if a stride is negative or an operand too large.
func (c *contraction) checkStrides() error {
	var spans [4]int // the greatest offset of an element in the result, A, B and the addend
	for _, loop := range c.Loops {
		for operand, stride := range []int{loop.Out, loop.A, loop.B, loop.Add} {
			spans[operand] += (loop.Size - 1) * stride
			if stride < 0 || spans[operand] >= 1<<28 {
				return fmt.Errorf("gpu: a product with a negative stride, or with an operand that spans more than "+
					"2^28 elements, is %w", ErrUnsupported)
			}
		}
	}
	return nil
}

// continues reports whether a loop continues the strides of the next faster loop, so that one loop can replace both.
func continues(loop, faster graph.ContractionLoop) bool {
	return loop.Out == faster.Size*faster.Out && loop.A == faster.Size*faster.A && loop.B == faster.Size*faster.B &&
		loop.Add == faster.Size*faster.Add
}

// setTile chooses the largest size of tiles that satisfies two conditions. Each processor of the device gets a group,
// and the product fills more than half of a tile's height and width. If no size satisfies both, it chooses the smallest
// size.
func (c *contraction) setTile(height, width, batch int) {
	const processors = 128 // the assumed number of multiprocessors
	c.tile, c.perThread, c.sliceTerms = 32, 2, 16
	// Largest first. A tile has groupSize threads: (tile/perThread)^2.
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

// leastOutStride returns the least stride of the result along loops, or math.MaxInt without loops.
func (c *contraction) leastOutStride(loops []graph.ContractionLoop) int {
	least := math.MaxInt
	for _, loop := range loops {
		if loop.Size > 1 {
			least = min(least, loop.Out)
		}
	}
	return least
}

// offsets returns the sum of the indices of loops times the strides of an operand, in elements. Unlike offset, it
// returns a constant if the sum is always 0.
func (c *contraction) offsets(loops []graph.ContractionLoop, index []ir.Value,
	stride func(loop graph.ContractionLoop) int) ir.Value {
	var shape, strides []int
	for _, loop := range loops {
		shape, strides = append(shape, loop.Size), append(strides, stride(loop))
	}
	if sum := c.offset(index, shape, strides); sum != ir.None {
		return sum
	}
	return c.u32(0)
}

func strideA(loop graph.ContractionLoop) int   { return loop.A }
func strideB(loop graph.ContractionLoop) int   { return loop.B }
func strideOut(loop graph.ContractionLoop) int { return loop.Out }
func strideAdd(loop graph.ContractionLoop) int { return loop.Add }

// splitLoops returns the index in each loop of a linear index over the loops.
func (c *contraction) splitLoops(index ir.Value, loops []graph.ContractionLoop) []ir.Value {
	var shape []int
	for _, loop := range loops {
		shape = append(shape, loop.Size)
	}
	return c.indexInShape(index, shape)
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

// multiply adds the products of a slice of the sum to sums. arrayA has the element of term t and row i of the tile at
// t*tile + i. arrayB has the element of term t and column i there.
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
	// The columns' offsets are computed once.
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

// loader copies the elements of A or B for a slice of the sum to an array in the memory of the group. For each term it
// copies one element per row or column of the tile. Adjacent threads copy adjacent terms if these are adjacent in
// memory, else adjacent rows or columns.
type loader struct {
	*contraction
	isA        bool
	array      uint64   // index of the array in the memory of the group
	alongTerms bool     // whether adjacent threads copy adjacent terms
	copies     []copied // the elements that a thread copies for a slice
}

// copied describes an element that a thread copies for each slice: the row or column of the element, and its term.
type copied struct {
	position ir.Value   // the row or column in the tile
	term     ir.Value   // the term in the slice
	start    ir.Value   // the offset of the row or column in elements
	isValid  ir.Value   // whether the row or column exists
	index    []ir.Value // the index of the row or column in each loop
}

// newLoader returns the loader of A or B for a thread. first is the first row or column of the tile. base is the
// element offset of the product (an index of the batch).
func (c *contraction) newLoader(thread, first ir.Value, array uint64, isA bool, base ir.Value) *loader {
	const u32 = tensor.Uint32
	created := &loader{contraction: c, isA: isA, array: array}
	loops, stride := c.cols, strideB
	if isA {
		loops, stride = c.rows, strideA
		// The offset of the first window, modulo 2^32: offsets of existing elements are not negative.
		base = c.add32(base, c.u32(-c.Before))
	}
	created.alongTerms = len(c.sum) > 0 && stride(c.sum[0]) == 1 && (len(loops) == 0 || stride(loops[0]) != 1)
	fastSize := c.tile
	if created.alongTerms {
		fastSize = c.sliceTerms
	}
	// The group copies tile*sliceTerms elements, groupSize at a time. Element j of a thread has the fast index
	// thread%fastSize and the slow index thread/fastSize + j*groupSize/fastSize.
	fast, slow := c.op(lane.And, u32, thread, c.u32(fastSize-1)), c.quotient(thread, fastSize)
	for j := range c.tile * c.sliceTerms / groupSize {
		position, term := fast, c.add32(slow, c.u32(j*(groupSize/fastSize)))
		if created.alongTerms {
			position, term = term, position
		}
		absolute := c.add32(first, position)
		index := c.splitLoops(absolute, loops)
		created.copies = append(created.copies, copied{position: position, term: term,
			start:   c.add32(base, c.offsets(loops, index, stride)),
			isValid: c.isLess(absolute, size(loops)), index: index})
	}
	return created
}

// load loads the elements of the slice whose first term is `first`. Elements outside of windows or of the product are
// 0.
func (l *loader) load(first ir.Value) (values []ir.Value) {
	param, dtype, stride := 2, l.B.DType, strideB // the parameters are the result, A, B and the addend
	if l.isA {
		param, dtype, stride = 1, l.A.DType, strideA
	}
	zero := l.float(l.sumDType, 0)
	for _, element := range l.copies {
		term := l.add32(first, element.term)
		index := l.splitLoops(term, l.sum)
		valid := l.and(element.isValid, l.isLess(term, size(l.sum)))
		if l.isA {
			valid = l.isInWindows(valid, element.index, index)
		}
		offset := l.add32(element.start, l.contraction.offsets(l.sum, index, stride))
		offset = l.selectValue(tensor.Uint32, valid, offset, l.u32(0)) // element 0 can always be loaded
		address := l.elementAddress(param, offset, dtype.Size())
		value := l.convert(l.sumDType, dtype, l.scalarBuilder.load(oneElement(dtype), address)[0])
		values = append(values, l.selectValue(l.sumDType, valid, value, zero))
	}
	return values
}

// isInWindows returns whether valid holds and an element of A is within all windows. rowIndex and termIndex are the
// indices of its row and its term in each loop.
func (l *loader) isInWindows(valid ir.Value, rowIndex, termIndex []ir.Value) ir.Value {
	for _, window := range l.Windows { // position = result*stride + tap*dilation - before
		start := l.mul32(rowIndex[slices.Index(l.rowLoops, window.Result)], window.Stride)
		tap := l.mul32(termIndex[slices.Index(l.sumLoops, window.Tap)], window.Dilation)
		position := l.add32(l.add32(start, tap), l.u32(-window.Before))
		// A negative position is a large number modulo 2^32, so it is invalid as well.
		valid = l.and(valid, l.isLess(position, window.Size))
	}
	return valid
}

// store stores loaded elements in the memory of the group.
func (l *loader) store(values []ir.Value) {
	for j, value := range values {
		index := l.add32(l.mul32(l.copies[j].term, l.tile), l.copies[j].position)
		l.EmitImm(ir.StoreShared, tensor.Invalid, l.array, index, value)
	}
}
