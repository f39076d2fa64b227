// Package iter runs a computation over operands of any layouts, in as few and as long strided runs as possible. It is
// PyTorch's TensorIterator as a separate library: describe the operands, then run a kernel over them.
//
//	it, err := iter.Binary(iter.Undefined(), iter.OfTensor(a), iter.OfTensor(b)).Build()
//	sum, err := it.Apply(iter.Map2(func(a, b float32) float32 { return a + b }))
//
// # Setting up
//
// A [Config] lists outputs, then inputs, and says how dtypes and given outputs are
// treated; [Unary], [Binary], [Comparison], [Reduction] and the others are PyTorch's
// ready configurations. [Config.Build] decides everything once, by package rule:
//
//  1. inconsistent operands are rejected, and outputs that overlap in memory, with themselves
//     or partially with an input, as PyTorch defines it ([OverlapOf]);
//  2. shapes are broadcast, and dimension names unified;
//  3. the common dtype is found by PyTorch's promotion;
//  4. the outputs are laid out. If all operands are contiguous, or all channels-last, or
//     all dense with the same strides, the outputs are too (fast set-up). Else the
//     dimensions are sorted by the operands' strides, outputs and left operands first,
//     and the outputs are dense in that order (the permutation rule);
//  5. dimensions that form one run for all operands are coalesced.
//
// The [Iterator] describes these decisions ([Iterator.String]) and the steps to them, with each
// comparison of the sort ([Iterator.Explain]). It is immutable and safe for concurrent use. It
// can be built from metas alone, without any data ([Of]); a walk takes addresses. [Config.Rule]
// is the part of Build that needs no numbers: sizes may be unknown there.
//
// # Computing
//
// A [Kernel] is the computation for each element, with the dtypes of its operands and results. [Map2] and its relatives
// make one from a function of single elements; [Slice2] and its relatives from a function over slices, which is several
// times faster for cheap functions; [Expr] from an expression, which is compiled. There are forms for 0 to
// [MaxOperands] operands and 1 to [MaxResults] results. A [Table] holds the kernels of one op and selects one by the
// dtypes of an iteration; if there is none, the error is PyTorch's: "add_cpu" not implemented for 'Half'.
//
// [Iterator.Apply] checks the kernel against the iteration, allocates the outputs whose layout the iterator chose (with
// the caller's [Allocate], if given), and runs on all cores, or on as many as [Workers] says. A kernel sees contiguous
// blocks of its own dtypes. Strided operands and operands of other dtypes are copied to small blocks. Thus one function
// works for every layout and every mix of dtypes, and no whole tensor is converted. Tasks depend only on shapes and
// [Grain], so the bits of the results do not depend on the number of workers.
//
// [Iterator.Prepare] checks a kernel once, for callers with addresses and workers of their own. [CopyInto] is copy_. A
// [Loop] gets strides and addresses, and is unsafe.
//
// # Reductions
//
// A [Fold] describes a reduction: a neutral accumulator, how an element is added to it, how two accumulators are
// merged, and the result. [Fold.Over] reduces a tensor over some dimensions:
//
//	sum := iter.FoldOf(0.0,
//		func(a float64, x float32, _ int) float64 { return a + float64(x) },
//		func(a, b float64) float64 { return a + b },
//		func(a float64) float32 { return float32(a) })
//	out, err := sum.Over(x, false, 1)
//
// As an iteration, a reduction has outputs of the same rank as the input, with size 1 or stride 0 in the reduced
// dimensions ([ReduceOutput]). Use [Reduction] for one output, and [New] with [Config.IsReduction] for several.
// [Iterator.RunReduce] and [Iterator.Reduce] run it; [Iterator.Reducer] gives the phases and chunks to callers with
// workers and memory of their own.
//
// # Mistakes
//
// A mistake of the caller gives an error that names the operand. [Config.Build] reports mistakes in a configuration.
// Functions that use a fold or a kernel report mistakes in it. Accessors that take an index panic like a slice, and so
// do [Iterator.Chunk], [ReduceShape] and [ReduceOutput]; nothing else panics. A panic of a caller's function is raised
// again in the caller's goroutine.
//
// docs/pytorch.md maps the names of TensorIterator to this package.
package iter
