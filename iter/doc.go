// Package iter turns operands of any layouts into the fewest, longest strided runs. It is
// PyTorch's TensorIterator as a library of its own: state the operands, get the loop.
//
// # Setting up
//
// A [Config] lists outputs, then inputs, and says how dtypes and given outputs are
// treated; [Unary], [Binary], [Comparison], [Reduction] and the others are PyTorch's
// ready configurations. [Config.Build] decides everything once:
//
//  1. memory overlap of outputs is refused;
//  2. shapes are broadcast, and dimension names unified;
//  3. the common dtype is found by PyTorch's promotion;
//  4. the outputs are laid out. If all operands are contiguous, or all channels-last, or
//     all dense with the same strides, the outputs are too (fast set-up). Else the
//     dimensions are sorted by the operands' strides, outputs and left operands first,
//     and the outputs are dense in that order (the permutation rule);
//  5. dimensions that form one run for all operands are coalesced.
//
// The [Iterator] tells what was decided: [Iterator.Meta], [Iterator.Perm],
// [Iterator.FastSetup], [Iterator.WalkShape], [Iterator.WalkStrides], or all of it by
// [Iterator.String]. It is immutable and safe for concurrent use. It can be built from
// metas alone, without any data; addresses come in when it is walked.
//
// # Walking
//
// A [Loop] receives addresses, byte strides and two counts: n1 rows of n0 elements.
// [Iterator.ForEach] walks all of the iteration, [Iterator.ForRange] a part of it. The copy
// loop of a float32 tensor is
//
//	it.ForEach(ptrs, func(p []unsafe.Pointer, st []int, n0, n1 int) error {
//		for j := range n1 {
//			for i := range n0 {
//				*(*float32)(unsafe.Add(p[0], i*st[0]+j*st[2])) = *(*float32)(unsafe.Add(p[1], i*st[1]+j*st[3]))
//			}
//		}
//		return nil
//	})
//
// Any range may be walked by itself: cutting an iteration anywhere changes nothing but
// the sizes of the steps. [Iterator.Parallel] does so on several goroutines.
//
// A [Body] knows contiguous blocks only, and [Iterator.ForBlocks] makes it serve every
// layout: what is not contiguous passes through small blocks on its way. [Slice2] and its
// kin make a body of a function over slices, [Kernel2] and its kin of a function of single
// elements. [Apply2] and its kin check dtypes, run, and return the output.
//
// # Dtypes
//
// Operands whose dtype differs from what loops see ([Iterator.DType]) are converted block
// by block inside the walk; no whole tensor is ever converted. The layout nevertheless
// comes out as PyTorch's on the CPU, where a converted operand is a temporary whose own
// layout takes part in the permutation rule.
//
// # Given outputs
//
// A given output of the right shape keeps its strides and leads the permutation; one of a
// wrong shape is laid out anew with a warning ([Iterator.Resized], [Iterator.Warnings]) or
// refused; one of another dtype is converted on write, or refused where that is not safe.
// The same *tensor.Tensor as output and input makes the operation an in-place one.
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
// along the reduced dimensions: of size 1, or with stride 0 ([ReduceOutput] makes such a
// view of an output without these dimensions). [Reduction] configures one output, New
// with [Config.IsReduction] several: var_mean, or max with its indices, are one Fold with
// two results ([Yields]). [Config.CastInputs] converts the input first, as sum(dtype=...)
// does. [Iterator.RunReduce] and [Iterator.Reduce] run it; [Iterator.Reducer] gives the
// phases and chunks to those who have workers and memory of their own.
//
// One Fold serves every layout: results are folded along contiguous runs or side by side,
// as the operand lies; other elements pass through blocks. Work is cut by shapes and
// strides alone: into runs of results, or, where there are few, into pieces of the reduced
// range whose accumulators are merged in order by a second pass. So the same bits come out
// for any number of workers.
//
// An element passes through at most n/32 + 1200 additions on its way into a sum of n
// elements by [FoldOf]: with accumulators of float64 a sum is off by at most
// (n/32 + 1200)*2^-53 times the sum of magnitudes, and the rounding of the result. For
// float16, bfloat16 and float32 that is within one rounding of the exact sum unless it
// cancels. Accumulators of float32 have the same bound with 2^-24.
//
// # Parts
//
// [Iterator.Narrow], [Iterator.SelectAll], [Iterator.RemoveOperand] and [Iterator.Split32]
// give iterations over parts of the same operands. A part of a reduction along a reduced
// dimension has a part of the result; the later ones that Split32 makes go on from what the
// outputs hold, for which a Fold must know a way back ([Resumes]).
//
// # Coming from PyTorch
//
// add_output and add_input with an owned tensor are [OfTensor]: the iteration keeps the
// tensor alive and knows its storage. With a borrowed tensor they are [Of], which keeps
// nothing but the meta; the addresses come from the caller when it is walked. An undefined
// output is [Undefined], or [UndefinedOf] where its dtype is declared; a wrapped number is
// [Number]. at::result_type is [ResultType], at::can_cast is [tensor.CanCast]; cpu_kernel is
// [Apply1] and its kin over [Kernel1], cpu_kernel_vec a Body of [Slice1] and its kin,
// cpu_kernel_multiple_outputs [Apply1Out2]; binary_kernel_reduce and parallel_reduce are
// [Iterator.Reduce], at::native::make_reduction is [ReduceMask], [ReduceShape] and
// [ReduceOutput].
package iter
