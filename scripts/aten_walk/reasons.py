"""Deliberate differences from PyTorch 1.13: the exact set of calls, and the reason."""
import itertools
import re

import numpy as np

from compare import error, numbers

CONVS = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
TURNED = "conv_transpose1d conv_transpose2d conv_transpose3d"
SMOOTH = "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d"
FFT = " ".join("fft_" + f + n for f in "fft ifft rfft irfft hfft ihfft".split() for n in ("", "2", "n"))


def dense(x):
    """Whether strides are row-major."""
    step = 1
    for n, s in zip(reversed(x["shape"]), reversed(x["strides"])):
        if n != 1 and s != step:
            return False
        step *= n
    return not x.get("offset")


class Case:
    """A call that differs: node n, operands ins, first operand x, dtype, attributes and the difference's text."""

    def __init__(self, n, text, c):
        by = {x["name"]: x for x in c.inputs}
        self.n, self.text, self.c, self.attrs = n, text, c, n.get("attrs", {})
        self.ins = [by.get(i) if isinstance(i, str) else None for i in n["inputs"]]
        self.given = [x for x in self.ins if x]
        self.x = self.ins[0] if self.ins else None
        self.dtype, self.shape = (self.x["dtype"], self.x["shape"]) if self.x else (None, None)
        self.outs = n.get("outputs", [n["name"]])

    def data(self, i):
        return numbers(self.c.data[self.ins[i]["name"]], self.ins[i]["dtype"])

    def got(self, k):
        return self.c.got[self.outs[k]]

    def want(self, k):
        return self.c.results[self.outs[k]]

    def odd(self, *places):
        """Whether one of the operands at the given indices has a NaN or an infinity."""
        return any(not np.isfinite(self.data(i)).all() for i in places or range(len(self.ins)) if i < len(self.ins) and self.ins[i])


def empty(k):
    return any(0 in x["shape"] for x in k.given) or any(0 in k.c.values[o]["shape"] for o in k.outs if o in k.c.values)


def scalar(k):
    return k.shape == []


def of_complex(k):
    return k.dtype.startswith("complex")


def bfloat16(k):
    return k.dtype == "bfloat16"


def of_bool(k):
    return any(x["dtype"] == "bool" for x in k.given)


def with_nan(k):
    return bool(np.isnan(k.data(0)).any())


def odd(k):
    return k.odd()


def expanded(k):
    return any(n > 1 and step == 0 for n, step in zip(k.shape, k.x["strides"]))


def nearer(k):
    return "; ours is nearer to float64's" in k.text


def infinite_weight(k):
    return len(k.ins) > 1 and k.ins[1] and bool(np.isinf(k.data(1)).any()) and k.attrs.get("use_input_stats", True)


def each(v, n):
    return list(v) * (n // len(v)) if isinstance(v, (list, tuple)) else [v] * n


def ties(k):
    """The elements at graphrun's indices equal PyTorch's."""
    at, want, d = k.got(1), k.want(0), k.attrs.get("dim", -1)
    if at.ndim < len(k.shape):
        at, want = np.expand_dims(at, d), np.expand_dims(want, d)
    return np.array_equal(numbers(np.take_along_axis(k.c.data[k.x["name"]], at, d), k.dtype), numbers(want, k.dtype), equal_nan=k.dtype in FLOATS)


FLOATS = ("float16", "bfloat16", "float32", "float64")


def ordinary(k):
    """bfloat16, with the shape of the corresponding convolution that is not transposed."""
    w, rank = k.ins[1]["shape"], len(k.ins[1]["shape"]) - 2
    s, p, d = (each(k.attrs.get(a, z), rank) for a, z in (("stride", 1), ("padding", 0), ("dilation", 1)))
    sizes = [(k.shape[i - rank] + 2 * p[i] - d[i] * (w[2 + i] - 1) - 1) // s[i] + 1 for i in range(rank)]
    return bfloat16(k) and k.c.values[k.outs[0]]["shape"][-rank:] == sizes


def border(k):
    """A weight that is not finite, and padding zeros that it may be multiplied with."""
    p = k.attrs.get("padding", 0)
    return k.odd(1) and (p == "same" or not isinstance(p, str) and any(each(p, 1)))


def few_products(k):
    b, m = k.ins[1]["shape"], k.ins[2]["shape"]
    return k.attrs.get("beta") == 0 and b[1] * b[2] * m[2] < 400


def vectors(k):
    return of_complex(k) and all(len(x["shape"]) == 1 for x in k.given[1:2 if k.n["op"] == "linear" else 2])


def uncovered(k):
    """Circular padding that needs more elements than negative padding leaves."""
    p = k.attrs["pad"]
    for i in range(len(p) // 2):
        low, high = p[2 * i:2 * i + 2]
        if k.shape[-1 - i] + min(low, 0) + min(high, 0) < max(low, high, 0):
            return k.attrs.get("mode") == "circular"
    return False


def between(k):
    """All differences are in elements outside the operand."""
    def places(shape, strides, offset):
        return np.array([offset + sum(i * s for i, s in zip(at, strides)) for at in itertools.product(*map(range, shape))]).reshape(shape)
    held = places(k.shape, k.x["strides"], k.x.get("offset", 0))
    read = places(k.attrs["size"], k.attrs["stride"], k.attrs.get("storage_offset", k.x.get("offset", 0)))
    return np.array_equal(k.got(0)[np.isin(read, held)], k.want(0)[np.isin(read, held)])


def by_vectors(k):
    """PyTorch's result is that of its loop over pairs of 256-bit vectors."""
    n, d = k.attrs["steps"], k.attrs.get("dtype", "")
    if not re.match("u?int", d):
        return False
    start, end, lanes = int(k.attrs["start"]), int(k.attrs["end"]), 32 // np.dtype(d).itemsize
    step, whole = (end - start) / max(n - 1, 1), n // (2 * lanes) * 2 * lanes

    def one(i):
        return int(start + step * i if i < n // 2 else end - step * (n - i - 1))
    want = [int(one(i - i % lanes) + i % lanes * step) if i < whole else one(i) for i in range(n)]
    return whole > 0 and k.want(0).tolist() == want


def by_layout(k):
    """Output sizes that contradict a scale factor, in a channels-last operand."""
    rank, out = len(k.shape) - 2, k.attrs.get("output_size") or []
    same = any(n in (m, 2 * m) for n, m in zip(out, k.shape[2:]))
    return same and k.x["strides"][1] == 1 and any(a in k.attrs for a in ("scales_d", "scales_h", "scales_w")) and rank > 1


def overlapping(k):
    """Whether elements of as_strided_scatter's view may share an address."""
    span = 1
    for stride, size in sorted(zip(k.attrs["stride"], k.attrs["size"])):
        if size > 1 and stride < span:
            return True
        span += stride * (size - 1)
    return False


def behind(k):
    """A scale factor that contradicts the sizes, so that the last source indices exceed the operand."""
    sizes, out = k.shape[2:], k.attrs.get("output_size") or []
    names = ["scales"] if len(sizes) == 1 else ["scales_d", "scales_h", "scales_w"][-len(sizes):]
    last = [int((n - 0.5) / k.attrs[a] - 0.5) if a in k.attrs and n != m else 0 for n, m, a in zip(out, sizes, names)]
    return not k.attrs["align_corners"] and any(i >= m for i, m in zip(last, sizes))


def strided_odd(k):
    return k.odd() and not dense(dict(k.x, offset=0))


def cancelled(k):
    """Cancellation: both results differ from float64 by less than the rounding error of x/sqrt(eps)."""
    if k.dtype != "float32":
        return False
    exact = k.c.exact(k.n["name"])[0]
    x, w = k.data(0), k.data(1) if len(k.ins) > 1 and k.ins[1] else np.ones(1)
    bound = 2.0**-22 * np.abs(x[np.isfinite(x)]).max() * np.abs(w[np.isfinite(w)]).max() / np.sqrt(k.attrs.get("eps", 1e-5))
    return max(error(k.got(0), exact).max(), error(k.want(0), exact).max()) < bound


def no_order(k):
    """graphrun's slices are PyTorch's, without duplicates and sorted."""
    d = k.attrs["dim"]
    ours, theirs = ([tuple(r) for r in np.moveaxis(x, d, 0).reshape(x.shape[d], -1).tolist()] for x in (k.got(0), k.want(0)))
    return ours == sorted(set(theirs))


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def factors(k):
    """graphrun's factors are orthonormal and their product is the operand."""
    a = k.data(0)
    if k.n["op"] == "linalg_eigh":
        values, u = k.got(0), k.got(1)
        half = np.tril(a, -1) if k.attrs.get("UPLO", "L") == "L" else np.triu(a, 1)
        a = half + adjoint(half) + np.eye(a.shape[-1]) * np.real(a)
        v = u
    else:
        u, values, v = (k.got(i) for i in range(3))
        v = adjoint(v) if k.n["op"] == "linalg_svd" else v
    n = values.shape[-1]
    near = 1e-4 if k.dtype in ("float32", "complex64") else 1e-9
    whole = np.allclose((u[..., :n] * values[..., None, :]) @ adjoint(v[..., :n]), a, rtol=near, atol=near)
    return whole and all(np.allclose(adjoint(x) @ x, np.eye(x.shape[-1]), rtol=near, atol=near) for x in (u, v))


def rounded_weights(k):
    """Observations of 64 bits whose float32 weights have sums that are rounded differently."""
    weights = (k.ins + [None] * 3)[2]
    return bool(weights) and weights["dtype"] == "float32" and np.allclose(k.got(0), k.want(0), rtol=1e-6, atol=1e-6)


def unordered(k):
    """Indices with duplicates, of operands that are not row-major."""
    at = k.data(1) % max(k.got(0).size, 1)
    return len(np.unique(at)) < at.size and not all(dense(dict(x, offset=0)) for x in k.ins[1:])


def dependent(k):
    """An operand with dependent columns, whose rank the call assumes to be full."""
    return np.linalg.matrix_rank(k.data(0)).min() < min(k.shape[-2:]) and (
        k.attrs.get("driver") == "gels" or k.attrs.get("rcond", 1) <= 0)


def rounded_window(k):
    return len(k.given) > 1 and k.given[1]["dtype"] == "float32" and np.allclose(k.got(0), k.want(0), rtol=1e-6, atol=1e-6)


def small_sums(k):
    """The differences are below the rounding error of the greatest element of the operand."""
    single = k.c.values[k.outs[0]]["dtype"] in ("float32", "complex64")
    return abs(k.got(0) - k.want(0)).max() < (1e-6 if single else 1e-14) * np.abs(k.data(0).astype("complex128")).max()


def failed(k):
    return bool(k.want(-1).any())


# (ops, kind of difference, pattern of its text, condition on the call, reason); None matches everything.
RULES = [
    (None, "served", "not implemented for '?(Half|BFloat16)|implemented for half on CPU|Low precision dtypes", None, "16-bit floats that 1.13 lacks on the CPU and later ones have"),
    (None, "refused", "not implemented for", empty, "1.13 skips the dtype dispatch of empty tensors; graphrun rejects dtypes for all sizes"),
    ("topk kthvalue median nanmedian mode", "value", "_1: at", ties, "the order of ties is unspecified"),
    ("sort argsort topk kthvalue mode cummax cummin", "refused", "complex|Complex|Bool", scalar, "1.13 ranks one element of any dtype"),
    ("histc", "value", "", with_nan, "NaN is in no bin; the bin that 1.13 converts it to is undefined"),
    ("median nanmedian", "value", "", expanded, "1.13 reorders the elements of expanded operands in place"),
    ("_unique2 unique_dim", "value", "", with_nan, "NaNs are distinct and last; the comparison of 1.13 is not an order with NaNs"),
    ("unique_dim", "value", "", no_order, "1.13 considers a slice less if any of its elements is, which is not an order"),
    # Convolutions
    (CONVS, "served", "view size is not compatible", empty, "1.13 fails on empty batches that are not row-major"),
    (CONVS, "strides", "", empty, "the strides of empty tensors have no meaning"),
    (CONVS, "value", "nan", border, "whether kernels multiply an infinite weight by the zeros of the padding is unspecified, in 1.13 too"),
    (CONVS, "value", "want nan", lambda k: bfloat16(k) and k.odd(0) and nearer(k), "1.13's oneDNN multiplies infinities of bfloat16 by the zeros that pad its blocks"),
    (TURNED, "served", "Given groups|Kernel size can't be greater", bfloat16, "1.13's oneDNN interprets bfloat16 weights as those of a convolution that is not transposed"),
    (TURNED, "shape", "", ordinary, "1.13's oneDNN convolves bfloat16 as if it were not transposed"),
    (TURNED, "refused", "output padding must be", lambda k: empty(k) or bfloat16(k), "1.13 does not check empty tensors and bfloat16"),
    (TURNED, "served", "not implemented for 'Complex", of_complex, "complex numbers are supported in all dimensions, as in later versions"),
    # Resizing and sampling
    (SMOOTH, "value", "nan|inf", odd, "elements with weight 0 are not read, so that infinities do not spread"),
    (SMOOTH, "value", "", lambda k: nearer(k) and bfloat16(k), "weights of bfloat16 are computed in float32"),
    ("upsample_linear1d upsample_bilinear2d upsample_trilinear3d", "value", "", behind, "1.13 reads past the end if a factor contradicts the sizes"),
    ("upsample_nearest2d upsample_nearest3d", "value", "", by_layout,
     "if sizes are equal or double, 1.13 ignores the factor for channels_last, but not for contiguous operands"),
    ("pad", "value", "", uncovered, "circular padding with more elements than remain reads uninitialized memory in 1.13"),
    ("pixel_shuffle pixel_unshuffle", "served", "Unsupported memory format", lambda k: len(k.shape) == 5, "channels_last_3d is supported"),
    ("avg_pool3d", "served", "smaller than kernel size", None, "ONNX has no limit on padding"),
    # Numbers
    ("group_norm instance_norm batch_norm layer_norm native_layer_norm baddbmm norm lstm gru rnn_tanh det linalg_det", "value", "", nearer, "1.13 rounds more"),
    ("group_norm instance_norm", "value", "got -?inf, want nan", infinite_weight,
     "1.13 subtracts the product of the mean and an infinite weight from that of the element"),
    ("group_norm instance_norm batch_norm layer_norm native_layer_norm", "value", "", cancelled, "rounding errors of a difference are divided by a number near 0"),
    ("batch_norm", "value", "nan|inf", strided_odd, "1.13 scales non-dense operands before the shift and others after it, which differs for infinities"),
    (FFT, "value", "nan|inf", odd, "with infinities the NaNs depend on the algorithm"),
    (FFT, "value", "", small_sums, "sums that are small beside their terms are rounded differently"),
    (FFT, "served", "negative padding", empty, "1.13 rejects resizing a tensor with an empty dimension"),
    ("var_mean std_mean native_layer_norm", "value", "_1: at .* got -?inf, want nan", odd, "the mean of infinities is infinite; Welford's algorithm returns NaN depending on their order"),
    ("native_layer_norm", "value", "_1: at .* got nan, want 0.0", empty, "the mean of no elements is NaN"),
    (" ".join("special_%schebyshev_polynomial_%s" % (p, k) for p in ("", "shifted_") for k in "tuvw"), "value", "got -?inf, want nan",
     None, "the recurrences of 1.13 subtract infinities"),
    ("tril_indices triu_indices", "served", "'Short'", None, "indices of 16 bits, as in later versions"),
    ("as_strided_scatter", "value", "", lambda k: "16" in k.dtype and k.ins[1]["dtype"] == k.dtype and overlapping(k),
     "the compiled loop of 1.13 over 16-bit floats does not write overlapping elements in the order of its iterator"),
    ("softshrink", "value", "got nan, want 0.0", with_nan, "NaNs are kept, as in later versions"),
    ("linspace", "value", "", by_vectors,
     "1.13 counts from the first integer of a vector: linspace(1, 9.5, 40) of int64 ends with 9 for ATEN_CPU_CAPABILITY=avx512 and 8 for avx2"),
    ("norm", "dtype", "want complex", lambda k: of_complex(k) or k.attrs.get("dtype", "").startswith("complex"), "a norm is real, as in later versions"),
    ("trace", "served", "not implemented for 'Bool'", of_bool, "the sum of bools is defined"),
    ("clamp_min clamp_max", "served", "not implemented for 'Bool'", of_bool, "bools are ordered"),
    ("cumprod cumsum", "served", "without overflow", of_complex, "complex numbers are converted by their real part everywhere"),
    ("add sub rsub", "refused", "Boolean alpha only", None, "1.13 checks the dtype of alpha only if other is a tensor"),
    ("add sub rsub", "served", "Boolean alpha only", None, "1.13 interprets the operand of torch.add(x, True) as a boolean alpha"),
    # Products
    ("baddbmm", "value", "want .?nan", few_products, "beta 0 ignores self, as documented; 1.13 multiplies uninitialized memory by 0"),
    ("baddbmm", "refused", "can't be cast", empty, "1.13 does not check empty tensors"),
    ("linear addmm", "served", "can't be cast", empty, "1.13 promotes bools of empty tensors, and a factor is valid if the inner size is 0"),
    ("dot matmul linear", "value", "want 0j", vectors, "the complex dot product of Debian's BLAS gives 0"),
    ("rnn_tanh", "refused", "same dtype", empty, "1.13 accepts empty tensors of two dtypes"),
    ("det linalg_det", "refused", "Low precision", empty, "1.13 does not check empty tensors"),
    ("einsum", "dtype", "", empty, "1.13 contracts empty tensors in another order"),
    ("local_response_norm", "refused", "'Long'", None, "1.13 truncates the means of integers"),
    ("local_response_norm", "refused strides", "", empty, "1.13 returns empty operands unchecked"),
    ("scaled_dot_product_attention", "value", "got 0.0, want nan", lambda k: len(k.ins) > 3, "a query that sees no key gives 0, as in later versions"),
    ("logdet", "strides", "", empty, "the strides of empty tensors have no meaning"),
    # Indices and views
    ("index", "refused", "at least one index", empty, "1.13 accepts it only for empty tensors"),
    ("embedding", "served", "out of DATA bounds", empty, "an empty result reads no index"),
    ("embedding_bag", "served", "scalar types: Half, Float, Double; but got .*BFloat16", None, "bfloat16 is supported, as in later versions"),
    ("embedding_bag", "fails", "offsets must not decrease", None, "1.13 checks only the first and the last offset"),
    ("masked_fill", "served", "without overflow", empty, "the value is unused for empty tensors"),
    ("put", "value", "", unordered, "the order of writes to the same position is unspecified for operands that are not row-major"),
    ("index_select", "refused", "Index to scalar", scalar, "the result of 1.13 is uninitialized"),
    ("index_select", "served", "should be positive", empty, "an empty result reads no element"),
    ("repeat_interleave take_along_dim", "served", "tensor has no dimensions|view size is not compatible", None, "a defect of 1.13, fixed in later versions"),
    ("tril triu", "refused", "Dimension out of range", empty, "1.13 does not check the rank of empty operands"),
    ("as_strided", "value", "", between, "runs do not copy the memory between the elements of an input"),
    ("addmv", "shape", "", empty, "1.13 does not expand self if the matrix is empty"),
    ("addbmm", "served", "can't be cast", empty, "a factor is valid if the inner size is 0"),
    ("vdot linalg_vecdot", "value", "want 0j", None, "the complex dot product of Debian's BLAS gives 0"),
    ("mH matrix_H", "strides offset flags alias_of", "", of_complex, "the result of 1.13 is a view that is conjugated when it is read"),
    ("narrow_copy", "value", "", lambda k: not dense(k.x), "1.13 copies the wrong elements of operands that are not contiguous"),
    ("diag", "served", "multiplication overflow", None, "a diagonal beyond the matrix is empty"),
    ("kron isin local_response_norm", "served", "view size is not compatible", None, "1.13 views a product that may not be contiguous"),
    ("cov", "value", "", rounded_weights, "weights of float32 are added in another order"),
    ("cov", "served", "weights sum to zero", None, "weights are data; the covariance is NaN"),
    ("msort", "refused", "complex dtypes", scalar, "1.13 does not check operands without dimensions"),
    ("cdist", "value", "got nan", odd, "the greatest of numbers and NaN is NaN"),
    ("cdist", "value", "got inf, want nan", odd, "distances are not computed by a matrix product, which subtracts infinities"),
    # Factors of matrices
    ("linalg_eigh linalg_svd svd", "value", "", factors, "vectors are unique only up to a factor of magnitude 1"),
    ("linalg_eigh linalg_eigvalsh", "value fails served", "", odd, "1.13's result for infinities depends on their positions"),
    ("linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_solve linalg_solve_ex linalg_inv linalg_inv_ex inverse "
     "linalg_qr qr logdet slogdet linalg_slogdet linalg_cond linalg_tensorinv linalg_tensorsolve", "value fails served", "", expanded,
     "the factors of singular matrices depend on rounding"),
    ("linalg_inv linalg_inv_ex inverse linalg_qr qr", "value", "nan|inf", odd, "the factors of a matrix with infinities depend on the algorithm"),
    ("linalg_lstsq", "value fails served", "", dependent, "the factors of singular matrices depend on rounding"),
    ("linalg_lstsq", "shape", "", lambda k: len(k.ins[1]["shape"]) < len(k.shape) and k.ins[1]["shape"] != k.shape[:-1],
     "1.13 confuses the columns and the size of vectors if the batches differ"),
    ("linalg_lstsq", "shape value", r"n\d+_1: ", lambda k: k.attrs.get("driver") in ("gelsd", "gelss"),
     "1.13 returns no residuals if a matrix of the batch does not have full rank, which depends on data"),
    ("linalg_lstsq", "value", "_1: .*want 0.0", empty, "1.13 does not compute the residuals of matrices without columns"),
    ("linalg_cholesky_ex linalg_inv_ex", "value", "_0: at", failed, "the result of a failed computation is unspecified"),
    ("lu_solve linalg_lu_solve", "value", "", lambda k: max(len(x["shape"]) for x in k.ins) > 2, "1.13 uses one matrix of a batch if B is no batch"),
    ("cholesky_inverse", "value", "", of_complex, "a Cholesky factor has a real diagonal"),
    ("linalg_lu linalg_lu_factor linalg_lu_factor_ex", "refused", "without pivoting", empty, "1.13 does not check empty tensors"),
    ("linalg_matrix_rank linalg_cond", "refused", "doesn't handle types|Expected a tensor of|batches of square", empty, "1.13 does not check empty tensors"),
    ("linalg_matrix_exp matrix_exp", "value", "", lambda k: bfloat16(k) and nearer(k), "1.13 computes infinities and NaNs for bfloat16"),
    ("pinverse linalg_pinv linalg_cond", "value", "", nearer, "1.13 rounds more"),
    ("linalg_matrix_power matrix_power", "value", "", bfloat16, "1.13 rounds each addition of a product to bfloat16"),
    ("linalg_multi_dot", "value", "", bfloat16, "intermediate products are rounded to bfloat16"),
    ("istft", "served", "window overlap add|numel", None, "the sum of windows is data; where it is 0, the result is not finite"),
    ("istft", "value", "", lambda k: "float64" in str(k.c.values[k.outs[0]]["dtype"]) and k.dtype in ("float32", "complex64"),
     "the transform of float32 numbers is rounded to float32"),
    ("istft", "value", "", rounded_window, "the squares of float32 windows are added in another order"),
    # Losses and the like
    ("logsumexp", "served", "doesn't match the broadcast shape", lambda k: k.attrs["dim"] == [], "an empty list of dimensions means all, as in every other reduction"),
    ("multi_margin_loss multilabel_margin_loss", "value", "", empty, "1.13 does not initialize the result for no rows"),
    ("instance_norm", "served", "single memory location|could not infer", None, "graphs do not write running statistics"),
    ("nll_loss", "served", "should be 1D or 2D", lambda k: len(k.shape) > 2, "the op includes nll_loss_nd"),
]


def reason(kind, n, text, c):
    """The reason of a deliberate difference, or None."""
    k = Case(n, text, c)
    for ops, of, words, when, why in RULES:
        if (ops is None or n["op"] in ops.split()) and kind in of.split() and re.search(words, text) and (when is None or when(k)):
            return why
    return None


# Ops that the walk does not call, and the reasons.
UNWALKED = {
    "an operator of ONNX, which scripts/vectors compares":
        """compress conv_integer depth_to_space dequantize_linear dft dynamic_quantize_linear gather_nd hardmax lp_pool matmul_integer
        mel_weight_matrix non_max_suppression onnx_gru onnx_lstm onnx_rnn pairwise_probabilities qlinear_conv qlinear_matmul
        quantize_linear resize scatter_nd shrink space_to_depth tfidf_vectorizer tree_ensemble unique""",
    "runs a graph": "if if_sizes loop scan",
    "an op of graphrun": "conv2d_bytes linear_blocks matmul_bytes pointwise raise",
    "later than PyTorch 1.13": "rms_norm",
}
