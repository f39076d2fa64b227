// Package iter turns operands of any layouts into the fewest, longest strided runs. It is
// PyTorch's TensorIterator as a library of its own: state the operands, get the loop.
//
//	it, err := iter.Binary(iter.Undefined(), iter.OfTensor(a), iter.OfTensor(b)).Build()
//	sum, err := it.Apply(iter.Map2(func(a, b float32) float32 { return a + b }))
//
// # Setting up
//
// A [Config] lists outputs, then inputs, and says how dtypes and given outputs are
// treated; [Unary], [Binary], [Comparison], [Reduction] and the others are PyTorch's
// ready configurations. [Config.Build] decides everything once:
//
//  1. operands that do not hold together are refused, and memory overlap of outputs: with
//     themselves, and in part with an input, as PyTorch sees it ([OverlapOf]);
//  2. shapes are broadcast, and dimension names unified;
//  3. the common dtype is found by PyTorch's promotion;
//  4. the outputs are laid out. If all operands are contiguous, or all channels-last, or
//     all dense with the same strides, the outputs are too (fast set-up). Else the
//     dimensions are sorted by the operands' strides, outputs and left operands first,
//     and the outputs are dense in that order (the permutation rule);
//  5. dimensions that form one run for all operands are coalesced.
//
// The [Iterator] tells what was decided ([Iterator.String]), and how it came about, each
// comparison of the sort and every intermediate ([Iterator.Explain]). It is immutable and
// safe for concurrent use. It can be built from metas alone, without any data ([Of]);
// addresses come in when it is walked. [Config.Rule] is the part of Build that needs no
// numbers: sizes may be unknown there.
//
// # Computing
//
// A [Kernel] is what is computed for each element, and knows the dtypes of its operands and
// results. [Map2] and its row make one of a function of single elements, [Slice2] and its
// row of a function over slices, which is several times faster where the function is
// cheap; there are forms for 0 to [MaxOperands] operands and 1 to [MaxResults] results.
// A [Table] holds the kernels of one op and chooses by what the loops see; where it has
// none, the error is PyTorch's: "add_cpu" not implemented for 'Half'.
//
// [Iterator.Apply] checks the kernel against the iteration, gets memory for the outputs that
// were laid out (from the caller, with [Allocate]), and runs on all cores, or on as many as
// [Workers] says. A kernel sees contiguous blocks of the dtypes it was written for: what is
// strided, or of another dtype, passes through small blocks on its way, so that one
// function works for every layout and every mix of dtypes, and no whole tensor is ever
// converted. Work is cut by shape and [Grain] alone, so the bits of the results do not
// depend on the number of workers.
//
// [Iterator.Prepare] checks a kernel once for those who bring addresses and workers of their
// own. [CopyInto] is copy_. Who must see strides writes a [Loop], which is unsafe.
//
// # Reductions
//
// A [Fold] says how values are folded: a neutral accumulator, how an element goes into
// it, how two accumulators are merged, what the result is. [Fold.Over] is the short way to
// reduce a tensor over some dimensions:
//
//	sum := iter.FoldOf(0.0,
//		func(a float64, x float32, _ int) float64 { return a + float64(x) },
//		func(a, b float64) float64 { return a + b },
//		func(a float64) float32 { return float32(a) })
//	out, err := sum.Over(x, false, 1)
//
// As an iteration, a reduction has outputs of the input's rank, which stay where they are
// along the reduced dimensions: of size 1, or with stride 0 ([ReduceOutput]).
// [Reduction] configures one output, New with [Config.IsReduction] several.
// [Iterator.RunReduce] and [Iterator.Reduce] run it; [Iterator.Reducer] gives the phases
// and chunks to those who have workers and memory of their own.
//
// # Mistakes
//
// What the caller gets wrong is an error that names the operand: configurations wait for
// [Config.Build], folds and kernels for the place where they are used. Accessors that take
// an index panic as a slice does, and so do [Iterator.Chunk], [ReduceShape] and
// [ReduceOutput]; nothing else does. A panic of a caller's own function is raised again in
// the goroutine of the caller.
//
// docs/pytorch.md tells which name of TensorIterator is which here.
package iter
