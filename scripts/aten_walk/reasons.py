"""Differences that stay: what PyTorch 1.13 does and we do not, on purpose, and why."""
import re

# (ops, kind of difference, words of PyTorch's or our message, reason); None stands for all.
RULES = [
    (None, "served", "not implemented for 'Half'|not implemented for 'BFloat16'|not implemented for Half|not implemented for BFloat16|"
     "Low precision dtypes", "16-bit floats that 1.13 lacks on the CPU and later ones have"),
    ("topk kthvalue", "value", "_1: at", "ties may stand in any order"),
    ("_unique2 unique_dim", "value", r"n\d+_[12]: int64\(0,\)", "results that were not asked for are empty"),
    ("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d", "served", "view size is not compatible",
     "1.13 fails on empty batches that are not row-major"),
    ("conv_transpose1d conv_transpose2d conv_transpose3d", "served", "Given groups", "1.13's oneDNN reads the weight's channels wrongly for bfloat16"),
    ("conv_transpose1d conv_transpose2d conv_transpose3d", "shape", "", "1.13's oneDNN reads the weight's channels wrongly for bfloat16"),
    (None, "refused", "not implemented for", "of no elements 1.13 never gets to its dispatch; dtypes are refused whatever the sizes", "empty"),
    ("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d", "strides", "", "of no elements the layout says nothing", "empty"),
    ("conv_transpose1d conv_transpose2d conv_transpose3d", "refused", "output padding must be", "of no elements 1.13 checks nothing", "empty"),
    ("conv_transpose1d conv_transpose2d conv_transpose3d", "served", "not implemented for 'Complex", "complex numbers are served in all dimensions, as in later versions"),
    ("masked_fill", "served", "without overflow", "of no elements the value is not looked at", "empty"),
    ("conv1d conv2d conv3d", "value", "got nan", "an infinite weight beside the border meets the zeros of the padding"),
    ("fft_fft fft_ifft fft_rfft fft_irfft", "value", "nan|inf", "of infinities the algorithm decides what is NaN"),
    ("det linalg_det", "refused", "Low precision", "of no elements 1.13 checks nothing"),
    ("_unique2", "value", "n[0-9]+_1: at", "a NaN is unlike any other; 1.13 counts it as the first"),
    ("index", "refused", "at least one index", "1.13 serves it of no elements only"),
    ("einsum", "dtype", "", "of no elements 1.13 sums in another order", "empty"),
    ("avg_pool3d", "served", "smaller than kernel size", "ONNX pads as it likes"),
    ("baddbmm", "value", "want nan|want .nan", "beta 0 ignores self, as documented; 1.13 multiplies its NaN by 0"),
    ("dot matmul", "value", "want 0j", "the complex dot product of Debian's BLAS gives 0"),
    ("logsumexp", "served", "doesn't match the broadcast shape", "no dimensions means all of them, as in every other reduction"),
    ("fft_fft fft_ifft fft_rfft fft_irfft", "served", "negative padding", "1.13 refuses to resize beside an empty dimension"),
    ("instance_norm", "served", "single memory location|could not infer", "graphs do not write running statistics"),
    ("nll_loss", "served", "should be 1D or 2D", "serves nll_loss_nd too"),
    ("norm", "dtype", "want complex", "a norm is real, as in later versions"),
    ("pad", "value", "", "circular padding of volumes by negative sizes reads uninitialised memory in 1.13", "circular"),
    ("pixel_shuffle pixel_unshuffle", "served", "Unsupported memory format", "channels_last_3d is as good as any layout"),
    ("index_select", "refused", "Index to scalar", "1.13 leaves the result uninitialised"),
    ("repeat_interleave take_along_dim", "served", "tensor has no dimensions|view size is not compatible", "a quirk of 1.13; later ones serve it"),
    ("tril triu", "refused", "Dimension out of range", "1.13 looks at the rank of operands with elements only"),
    ("var_mean std_mean", "value", "_1: at .* got -?inf, want nan", "the mean of infinities is infinite; Welford's update makes it NaN or not by their order"),
    ("upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d", "value", "want .?nan|want .?inf|got .?inf|got .?nan",
     "elements of weight 0 are not read, so that infinities stay where they are"),
    ("upsample_bicubic2d upsample_linear1d upsample_trilinear3d upsample_bilinear2d", "value", "", "weights of bfloat16 are computed in float32", "bfloat16"),
    ("upsample_linear1d upsample_bilinear2d upsample_trilinear3d", "value", "", "1.13 reads behind the end where a factor disagrees with the sizes", "scales"),
    ("grid_sampler", "value", "want nan", "elements of weight 0 are not read"),
    ("grid_sampler", "value", "", "a NaN in the grid is place 0 in volumes as in images", "volume"),
    ("sort argsort topk kthvalue", "refused", "complex|Complex|Bool", "1.13 sorts one element of any dtype", "scalar"),
    ("linear", "value", "want 0j", "the complex dot product of Debian's BLAS gives 0"),
    ("topk", "value", "_0: at 0 of 1", "1.13 copies a 0-dim operand whatever k is", "scalar"),
    ("rnn_tanh", "refused", "same dtype", "of no elements 1.13 multiplies numbers of two dtypes", "empty"),
    ("baddbmm", "refused", "can't be cast", "of no elements 1.13 checks nothing", "empty"),
    ("unique_dim", "value", "_0: at", "1.13 sorts slices wrongly that differ late"),
    ("add sub rsub", "refused", "Boolean alpha only", "1.13 asks for the dtype of alpha beside a tensor, and not beside a number"),
    ("index_select", "served", "should be positive", "of a result without elements nothing is read"),
    ("linear addmm", "served", "can't be cast", "of no elements 1.13 promotes bools"),
    ("_unique2", "value", "n[0-9]+(_0)?: ", "1.13 sorts by a comparison that a NaN upsets"),
    ("softshrink", "value", "got nan, want 0.0", "a NaN stays one, as in later versions"),
    ("layer_norm", "value", "", "1.13 divides bfloat16 sums of one element wrongly", "bfloat16"),
    ("trace", "served", "not implemented for 'Bool'", "the sum of bools is defined"),
    ("cumprod cumsum", "served", "without overflow", "complex numbers are converted by their real part everywhere"),
    ("as_strided", "value", "", "what lies between the elements of an input is unknown to a run", "strided"),
    ("addmm", "served", "can't be cast", "an inner size of 0 is no reason to refuse a factor"),
    ("clamp_min clamp_max", "served", "not implemented for 'Bool'", "bools are ordered"),
    ("add sub rsub", "served", "Boolean alpha only", "in 1.13 torch.add(x, True) takes the true for a bool alpha"),
]


def dense(x):
    """Whether strides are the row-major ones."""
    step = 1
    for n, s in zip(reversed(x["shape"]), reversed(x["strides"])):
        if n != 1 and s != step:
            return False
        step *= n
    return not x.get("offset")


def reason(kind, n, text, c):
    """Why a difference stays, or None."""
    ins = [x for x in c.inputs if x["name"] in n["inputs"]]
    for ops, of, words, why, *when in RULES:
        if ops is not None and n["op"] not in ops.split() or kind != of or not re.search(words, text):
            continue
        if when and not {"empty": lambda: any(0 in x["shape"] for x in ins) or any(0 in c.values[o]["shape"] for o in n.get("outputs", [n["name"]]) if o in c.values),
                         "circular": lambda: n["attrs"].get("mode") == "circular" and min(n["attrs"]["pad"]) < 0,
                         "volume": lambda: ins and len(ins[0]["shape"]) == 5,
                         "scalar": lambda: ins and not ins[0]["shape"],
                         "bfloat16": lambda: ins and ins[0]["dtype"] == "bfloat16",
                         "scales": lambda: any(k.startswith("scales") for k in n["attrs"]),
                         "strided": lambda: not all(map(dense, ins))}[when[0]]():
            continue
        return why
    return None
