// Package iter turns operands of any layouts into the fewest, longest strided runs. It is
// PyTorch's TensorIterator as a library of its own: state the operands, get the loop.
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
// The [Iterator] tells what was decided: [Iterator.Meta], [Iterator.Perm],
// [Iterator.FastSetup], [Iterator.WalkShape], [Iterator.WalkStrides], all of it by
// [Iterator.String], and how it came about, each comparison of the sort and every
// intermediate, by [Iterator.Explain]. It is immutable and safe for concurrent use. It can be built from
// metas alone, without any data; addresses come in when it is walked.
//
// # Computing
//
// A [Kernel] is what is computed for each element, and knows the dtypes of its operands and
// results. [Map2] and its row make one of a function of single elements, [Slice2] and its
// row of a function over slices, which is several times faster where the function is
// cheap; there are forms for 0 to [MaxOperands] operands and 1 to [MaxResults] results.
//
//	sum, err := it.Apply(iter.Map2(func(a, b float32) float32 { return a + b }),
//		iter.Workers(4), iter.Context(ctx), iter.Grain(10000))
//
// [Iterator.Apply] checks the kernel against the iteration, gets memory for the outputs that
// were laid out (from the caller, with [Allocate]), and runs on all cores. A [Table] holds
// the kernels of one op and chooses by what the loops see; where it has none, the error is
// PyTorch's: "add_cpu" not implemented for 'Half'. A kernel knows contiguous blocks only;
// what is not contiguous, or of another dtype, passes through small blocks on its way, so
// that one function serves every layout and every mix of dtypes.
//
// [CopyInto] is copy_. [Iterator.Prepare] checks a kernel once for those who bring addresses
// and workers of their own.
//
// Workers are a bound on goroutines; 0 means all cores in this package as in package exec.
// Work is cut by shape and grain alone, so the bits of the results do not depend on it.
//
// # Walking by hand, unsafely
//
// A [Loop] receives addresses, byte strides and two counts: n1 rows of n0 elements.
// [Iterator.ForEach] walks all of the iteration with it, [Iterator.ForRange] a part, and
// [Iterator.Parallel] all of it on several goroutines; [Rows] makes a Loop of one that knows
// single rows. The copy loop of a float32 tensor is
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
// Nothing tells whether the addresses are those of the operands ([Iterator.Bind] gives
// them), nor whether the loop is of their dtypes ([Iterator.DType]): a mistake reads and
// writes other memory. The number of addresses, nil ones and ranges are checked, with an
// error. Any range may be walked by itself: cutting an iteration anywhere changes nothing
// but the sizes of the steps.
//
// # Mistakes
//
// What the caller gets wrong is an error that names the operand: configurations wait for
// [Config.Build], folds and kernels for the place where they are used. Accessors that take
// an index panic as a slice does, and so do [Iterator.Chunk], [ReduceShape] and
// [ReduceOutput]; nothing else does. A panic of a caller's own function is raised again in
// the goroutine of the caller.
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
//	add_output, add_input of an owned tensor    OfTensor: keeps the tensor, knows its storage
//	add_borrowed_output, add_borrowed_input     Of: the meta alone; addresses come with the walk
//	an undefined output                         Undefined, UndefinedOf (declare_static_dtype: StaticDType)
//	a wrapped number                            Number
//	declare_static_shape                        Config.StaticShape
//	the other methods of TensorIteratorConfig   methods of Config of the same names
//	unary_op, binary_op, comparison_op, ...     Unary, Binary, Comparison, UnaryFloat, BinaryFloat, Nullary, Reduction
//	set_output_raw_strided                      Allocate
//	at::result_type, at::can_cast               ResultType, tensor.CanCast
//	get_overlap_status, has_internal_overlap    OverlapOf, InternalOverlap
//	cpu_kernel                                  Apply of Map0 to Map4
//	cpu_kernel_vec                              Apply of Slice0 to Slice4
//	cpu_kernel_multiple_outputs                 Apply of Map1Out2 and its kin
//	AT_DISPATCH_...                             Table
//	for_each (parallel)                         Parallel; Apply for kernels
//	serial_for_each, loop2d_t                   ForEach, ForRange; Loop
//	loop1d_t, loop_2d_from_1d                   Rows
//	GRAIN_SIZE                                  GrainSize, Grain
//	narrow, select_all_keeping_dim              Iterator.Narrow, Iterator.SelectAll
//	remove_operand                              Iterator.RemoveOperand
//	with_32bit_indexing                         Iterator.Split32, Iterator.CanUse32Bit
//	should_accumulate, is_final_output          Iterator.Accumulates, Iterator.IsFinal
//	has_contiguous_first_dim, is_contiguous     Iterator.HasContiguousFirstDim, Iterator.IsContiguous
//	binary_kernel_reduce, parallel_reduce       Iterator.Reduce, Iterator.RunReduce
//	make_reduction                              ReduceMask, ReduceShape, ReduceOutput,
//	                                            ReduceSizes, ReduceOutputType
//	Tensor::copy_                               CopyInto
//
// Not here, because there is one device and every value is strided and plain:
// check_all_same_device (and devices at all: AllowCPUScalars changes nothing), the conj and
// neg bits (conj and neg compute), common_device, gpu_kernel and the loaders and storers
// of dynamic casting, quantised and sparse operands, negative strides, and proxies of
// outputs that kernels of other layouts write.
//
// Stricter than PyTorch are the overlap checks where PyTorch gives up (operands that are
// not dense are looked at exactly, and two outputs must not overlap in part).
package iter
