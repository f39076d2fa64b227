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
// # Parts
//
// [Iterator.Narrow], [Iterator.SelectAll], [Iterator.RemoveOperand] and [Iterator.Split32]
// give iterations over parts of the same operands.
package iter
