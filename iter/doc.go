// Package iter runs a computation over operands of any layouts, in as few and as long strided runs as possible. It is
// PyTorch's TensorIterator as a separate library. The caller describes the operands, and then runs a kernel over them.
//
//	it, err := iter.Binary(iter.UndefinedOutput(), iter.OperandOfTensor(a), iter.OperandOfTensor(b)).Build()
//	sum, err := it.Apply(iter.Map2(func(a, b float32) float32 { return a + b }))
//
// # Setting up
//
// A [Config] lists outputs, then inputs, and has options for dtypes and for outputs that the caller supplies. [Unary],
// [Binary], [Comparison], [Reduction] and similar functions return PyTorch's common configurations. [Config.Build] has
// the following steps; package rule implements steps 1 to 4:
//
//  1. inconsistent operands are rejected, and so are outputs that overlap with themselves
//     in memory, or partially with an input ([OverlapOf] has PyTorch's definition);
//  2. shapes are broadcast, and dimension names unified;
//  3. the common dtype is found by PyTorch's promotion;
//  4. the outputs are laid out. If all operands are contiguous, or all channels-last, or
//     all dense with the same strides, the outputs get this layout (fast set-up). Else the
//     dimensions are sorted by the operands' strides, outputs and left operands first,
//     and the outputs are dense in that order (the permutation rule);
//  5. adjacent dimensions that form one strided run in every operand are merged (coalesced).
//
// The result is an [Iterator]. [Iterator.String] describes these decisions, and [Iterator.Explain] also the steps to
// them, with each comparison of the sort. An Iterator is immutable and safe for concurrent use. It can be built from
// metas without data ([OperandOfMeta]); addresses are supplied when it runs. [Config.Rule] is the part of Build that
// also accepts symbolic sizes.
//
// # Computing
//
// A [Kernel] is the computation of each element, with the dtypes of its operands and results. [Map2] makes a kernel
// from a function of single elements. [Slice2] makes a kernel from a function of slices, which is several times faster
// for cheap functions. Both have variants for 0 to [MaxOperands] operands and 1 to [MaxResults] results. [Expr] makes a
// kernel from an expression, which is compiled. A [Table] holds the kernels of one op and selects one by the dtypes of
// an iteration. If no kernel fits, it returns PyTorch's error: "add_cpu" not implemented for 'Half'.
//
// [Iterator.Apply] checks the kernel against the iteration, allocates the outputs whose layout the rule chose, and runs
// on all cores. [Allocate] and [Workers] change this. A kernel sees contiguous blocks of its own dtypes. Strided
// operands and operands of other dtypes are copied to small blocks. Thus one function works for every layout and every
// mix of dtypes, and no whole tensor is converted. Tasks depend only on shapes, strides and [Grain], so the bits of the
// results do not depend on the number of workers.
//
// [Iterator.Prepare] checks a kernel once, for callers that supply addresses and workers. [CopyInto] is copy_. A [Loop]
// gets strides and addresses, and is unsafe.
//
// # Reductions
//
// A [Fold] describes a reduction: a neutral accumulator, and functions that add an element to an accumulator, merge two
// accumulators, and compute the result from an accumulator. [Fold.Over] reduces a tensor over some dimensions:
//
//	sum := iter.FoldOf(0.0,
//		func(a float64, x float32, _ int) float64 { return a + float64(x) },
//		func(a, b float64) float64 { return a + b },
//		func(a float64) float32 { return float32(a) })
//	out, err := sum.Over(x, false, 1)
//
// As an iteration, a reduction has outputs of the same rank as the input, with size 1 or stride 0 in the reduced
// dimensions ([ReduceOutput]). Use [Reduction] for one output, and [New] with [Config.IsReduction] for several.
// [Iterator.RunReduce] and [Iterator.Reduce] run it. [Iterator.Reducer] is for callers that supply workers and memory:
// it divides the reduction into phases, which run one after another, and the phases into chunks, which may run in
// parallel.
//
// # Mistakes
//
// Mistakes of the caller are returned as errors that name the operand. [Config.Build] reports mistakes in a
// configuration, and functions that use a fold or a kernel report mistakes in it. Only [Iterator.Chunk], [ReduceShape],
// [ReduceOutput] and accessors that take an index panic. A panic of a caller's function is raised again in the caller's
// goroutine.
//
// docs/pytorch.md maps the names of TensorIterator to this package.
package iter
