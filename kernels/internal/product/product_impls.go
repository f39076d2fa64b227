package product

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// algorithms lists the algorithms of products, the simplest algorithm first. Each algorithm is an implementation.
var algorithms = []struct {
	name, doc string
	algorithm gemm.Algorithm
}{
	{"loops", "Plain loops over the matrices in their own layouts; for tiny products.", gemm.Loops},
	{"thin", "Reads the larger matrix once, in place; for up to four rows or columns.", gemm.Thin},
	{"tiled", "Packs the matrices into panels (constant ones only once) and multiplies tiles in registers.", gemm.Tiled},
}

// productImpls returns the implementations of an op whose calls are contractions: batches of products a @ b with an
// optional addend, where a has m x k and b has k x n elements. describe returns the contraction of a call.
func productImpls(describe func(call *graph.Call) (*contraction, error)) []graph.Impl {
	list := make([]graph.Impl, len(algorithms))
	for i, choice := range algorithms {
		impl := &productImpl{algorithm: choice.algorithm, describe: describe}
		list[i] = graph.Impl{Name: choice.name, Doc: choice.doc, Epilogues: true, Walks: impl.walks, Read: impl.read,
			Work: impl.work, Writes: impl.writes, Lower: impl.lower, Pack: multiply.PackFunc(impl.pack),
			Forms: func(call *graph.Call) ([]graph.Form, error) { return formOf(call, describe) }}
	}
	return list
}

// productImpl is the implementation of an op by an algorithm. Its methods are the functions of a [graph.Impl]. The cost
// of a call has two parts. Method work returns the cost for row-major operands. Method read returns the additional cost
// of another layout of an operand. A cost (pricing.Work) is a sum of units of work at named rates, such as
// multiply.RatePackRow.
type productImpl struct {
	algorithm gemm.Algorithm
	describe  func(call *graph.Call) (*contraction, error) // returns the contraction of a call
}

// walks implements [graph.Impl.Walks]. A walk is a loop order with a layout of the result. Results may have any order
// of dimensions.
func (impl *productImpl) walks(call *graph.Call, candidates []tensor.Order) []graph.Walk {
	product, err := impl.describe(rowMajor(call)) // walks must not depend on the layouts of operands
	if err != nil || !product.supports(call, impl.algorithm) {
		return nil
	}
	walks := []graph.Walk{{}}          // the first walk writes the inferred layout
	for _, order := range candidates { // an order is a permutation of dimensions, empty for a 0-dim result
		if order != "" && order.Rank() == call.Out[0].Rank() {
			walks = append(walks, call.WalkInOrder(order))
		}
	}
	return walks
}

// read implements [graph.Impl.Read]. It returns the cost of reading an operand in the given layout minus the cost of
// reading it in row-major order. It returns false if the algorithm does not support the layout.
func (impl *productImpl) read(call *graph.Call, _ graph.Walk, operand int, layout tensor.Meta) (work pricing.Work,
	ok bool) {
	isPackedOnce := call.IsConstant(operand) && impl.algorithm == gemm.Tiled
	if layout.IsContiguous() || isPackedOnce {
		return work, true
	}
	rowMajorCall := rowMajor(call)
	rowMajorProduct, err := impl.describe(rowMajorCall)
	if err != nil {
		return work, true // lower returns the error
	}
	product, err := impl.describe(withOperandLayout(rowMajorCall, operand, layout))
	if err != nil {
		return work, true // lower returns the error
	}
	if impl.algorithm != gemm.Tiled {
		// The matrix is read in place, in its own order.
		return graph.ReadWork(layout, layout), product.supports(call, impl.algorithm)
	}
	rateA, rateB := product.packingRates(call)
	rowMajorA, rowMajorB := rowMajorProduct.packingRates(call)
	switch operand {
	case product.aOperand:
		replacePacking(&work, rowMajorA, rateA, float64(layout.Numel()))
	case product.bOperand:
		replacePacking(&work, rowMajorB, rateB, float64(layout.Numel()))
	}
	return work, true
}

// replacePacking replaces the cost of packing a number of elements at rate `from` by the cost at rate `to`.
func replacePacking(work *pricing.Work, from, to string, elements float64) {
	if from != to {
		addPacking(work, to, elements)
		addPacking(work, from, -elements)
	}
}

// work implements [graph.Impl.Work].
func (impl *productImpl) work(call *graph.Call, walk graph.Walk) pricing.Work {
	work := pricing.Work{StartedSteps: 1}
	call.AddStreamed(&work)
	rowMajorCall := rowMajor(call)
	rowMajorCall.Out = []tensor.Meta{walk.ResultLayout(0, call.Out[0])}
	if product, err := impl.describe(rowMajorCall); err == nil {
		product.addWork(call, impl.algorithm, &work)
	}
	return work
}

// addWork adds the cost of computing the products of a call by an algorithm to work. Batch dimensions are first merged
// into m or n if possible: [8, 16, k] times [k, n] becomes [128, k] times [k, n].
func (product *contraction) addWork(call *graph.Call, algorithm gemm.Algorithm, work *pricing.Work) {
	merged := product.merged()
	entries, dtype := float64(merged.entries()), call.Out[0].DType
	macs := float64(merged.m) * float64(merged.n) * float64(merged.k)
	work.AddUnits(multiply.RateStartStep, 1)
	switch algorithm {
	case gemm.Loops:
		work.AddUnits(multiply.RateLoops, entries*macs)
		work.Flops += float64(2 * entries * macs)
	case gemm.Thin:
		work.AddUnits(multiply.RateStartProduct, entries)
		multiply.AddThinProduct(work, dtype, entries, macs)
	default:
		merged.addTiledWork(call, work)
	}
	if merged.hasAdd {
		if _, _, isVector := merged.vectorBias(); !isVector { // gemm adds a vector as a bias, which costs nothing
			work.AddUnits(multiply.RateAddTo, entries*float64(merged.m)*float64(merged.n))
		}
	}
}

// addTiledWork adds the work of the products by gemm.Tiled, and of packing their operands. The contraction must be
// merged.
func (product *contraction) addTiledWork(call *graph.Call, work *pricing.Work) {
	entries, dtype := float64(product.entries()), call.Out[0].DType
	aIsConstant, bIsConstant := call.IsConstant(product.aOperand), call.IsConstant(product.bOperand)
	// AddStreamed has counted results as Dense and constant operands as DenseConstants. But the stores of a tile do not
	// overlap with computation, and panels are loaded while the previous panel is multiplied.
	multiply.ReclassifyStores(work, call)
	multiply.ReclassifyPanels(work, call, product.aOperand, product.n)
	multiply.ReclassifyHalves(work, call, product.bOperand, product.m)
	work.AddUnits(multiply.RateStartProduct, entries)
	multiply.AddProduct(work, dtype, entries, product.m, product.n, product.k)
	// If the columns of the result are contiguous, gemm computes the transposed product.
	isTransposed := product.c.row == 1 && !aIsConstant && !bIsConstant
	if product.n > 1 && product.c.col != 1 && !isTransposed {
		multiply.AddScatteredStores(work, int(entries)*product.m*product.n, product.k)
	}
	rateA, rateB := product.packingRates(call)
	if !aIsConstant {
		addPacking(work, rateA, entries*float64(product.m)*float64(product.k))
	}
	if !bIsConstant {
		addPacking(work, rateB, entries*float64(product.n)*float64(product.k))
	}
}

// packingRates returns the names of the rates of packing matrices a and b. The name is empty for a matrix that is read
// in place.
func (product *contraction) packingRates(call *graph.Call) (a, b string) {
	merged := product.merged()
	packsA, packsB := gemm.Packs(merged.spec(multiply.ComputationDType(call)))
	if packsA {
		a = packingRate(merged.a.col, merged.a.row)
	}
	if packsB {
		b = packingRate(merged.b.row, merged.b.col)
	}
	return a, b
}

// addPacking adds the cost of packing a number of elements. rate is the name of the rate, or empty if nothing is
// packed.
func addPacking(work *pricing.Work, rate string, elements float64) {
	if rate != "" {
		work.AddUnits(rate, elements)
	}
}

// packingRate returns the name of the rate for packing a matrix with the given strides, in elements. The depth is the
// dimension that is summed. A lane is a row of the left matrix or a column of the right matrix.
func packingRate(depthStride, laneStride int) string {
	switch {
	case depthStride == 1:
		return multiply.RatePackRow
	case laneStride == 1:
		return multiply.RatePackCol
	}
	return multiply.RatePackStep
}

// writes implements [graph.Impl.Writes].
func (impl *productImpl) writes(call *graph.Call, _ graph.Walk, _ int, layout tensor.Meta) bool {
	callWithLayout := *call
	callWithLayout.Out = []tensor.Meta{layout}
	product, err := impl.describe(&callWithLayout)
	return err == nil && multiply.ComputationDType(call) == layout.DType && product.supports(call, impl.algorithm)
}

// pack returns the packing of an operand, for [multiply.PackFunc].
func (impl *productImpl) pack(call *graph.Call, operand int) (graph.Packing, bool) {
	product, err := impl.describe(call)
	dtype := call.Out[0].DType
	if err != nil || !gemm.Multiplies(dtype) || product.k == 0 {
		return graph.Packing{}, false
	}
	product.setAlgorithm(call, impl.algorithm)
	product.mergeBatch()
	var panels *multiply.Panels // nil for other operands, and for matrices that are read in place
	switch operand {
	case product.aOperand:
		panels = product.panelsOfA(dtype)
	case product.bOperand:
		panels = product.panelsOfB(dtype, multiply.Half(call, operand, dtype))
	}
	if panels == nil {
		return graph.Packing{}, false
	}
	return multiply.PackingOf(panels), true
}

// lower implements [graph.Impl.Lower].
func (impl *productImpl) lower(call *graph.Call) (*graph.Kernel, error) {
	original, err := impl.describe(call)
	if err != nil {
		return nil, err
	}
	compile := func(converted *graph.Call) (*graph.Kernel, error) {
		product, err := impl.describe(converted)
		if err != nil {
			return nil, err
		}
		// addmm sets k to 0 if it skips the product. The condition depends on the dtype before the conversion.
		product.k = original.k
		product.setAlgorithm(converted, impl.algorithm)
		return product.compile(converted)
	}
	return copies.CompileInDType(call, multiply.ComputationDType(call), compile)
}

// setAlgorithm selects an algorithm if it supports the products. Otherwise package gemm chooses, because converted
// operands can have layouts that the algorithm does not support.
func (product *contraction) setAlgorithm(call *graph.Call, algorithm gemm.Algorithm) {
	if product.supports(call, algorithm) {
		product.algorithm = algorithm
	}
}

// supports reports whether an algorithm can compute the products of a call. gemm.Loops supports only empty and tiny
// products, because it is slower for others. No other algorithm supports empty products.
func (product *contraction) supports(call *graph.Call, algorithm gemm.Algorithm) bool {
	merged := product.merged()
	spec := merged.spec(multiply.ComputationDType(call))
	isEmpty := spec.M == 0 || spec.N == 0 || spec.K == 0
	// The other algorithms would need a copy of a constant, in float32 or unpacked.
	isReadPacked := call.IsReadPacked(product.aOperand) || call.IsReadPacked(product.bOperand)
	isPackedOnly := isReadPacked && gemm.HasMachineCode(spec.DType) ||
		multiply.Half(call, product.bOperand, spec.DType) != 0
	if isPackedOnly && !isEmpty {
		return algorithm == gemm.Tiled
	}
	if isEmpty || algorithm == gemm.Loops {
		return algorithm == gemm.Loops && (isEmpty || kit.BoundedProduct(spec.M, spec.N, spec.K) <= tinyMACs)
	}
	return gemm.Supports(spec, algorithm)
}

// merged returns a copy of the contraction with a merged batch.
func (product *contraction) merged() contraction {
	merged := *product
	merged.mergeBatch()
	return merged
}

// rowMajor returns a copy of the call with row-major operands.
func rowMajor(call *graph.Call) *graph.Call {
	copied := *call
	copied.In = slices.Clone(call.In)
	for i, arg := range call.In {
		if arg.Kind == graph.TensorArg {
			meta := arg.Meta() // replaced even if contiguous, because strides of dimensions of size 1 matter
			copied.In[i] = graph.ArgOf(withLayout(arg.Value, tensor.New(meta.DType, meta.Shape...)))
		}
	}
	return &copied
}

// withOperandLayout returns a copy of the call with one operand in another layout.
func withOperandLayout(call *graph.Call, operand int, layout tensor.Meta) *graph.Call {
	copied := *call
	copied.In = slices.Clone(call.In)
	copied.In[operand] = graph.ArgOf(withLayout(call.In[operand].Value, layout))
	return &copied
}

// withLayout returns a value with another layout.
func withLayout(value *graph.Value, layout tensor.Meta) *graph.Value {
	return &graph.Value{Name: value.Name, Meta: layout, Type: layout.Type(), Const: value.Const, Pin: value.Pin}
}
