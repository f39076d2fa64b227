package catalogue

// sameOp maps a name of PyTorch's operator suite to the op with the same computation. Some of these ops take their
// operands in another order, or give the same results only for a certain value of an attribute.
var sameOp = map[string]string{
	"__radd__": "add", "__rmul__": "mul", "__rdiv__": "div", "__rsub__": "rsub", "__rpow__": "pow",
	"__rmod__": "remainder",
	"__rand__": "bitwise_and", "__ror__": "bitwise_or", "__rxor__": "bitwise_xor", "__rmatmul__": "matmul",
	"__getitem__": "index", "true_divide": "div", "conj": "conj_physical", "resolve_conj": "alias", "resolve_neg": "alias",
	"bfloat16": "to", "bool": "to", "byte": "to", "char": "to", "double": "to", "float": "to", "half": "to", "int": "to",
	"long": "to", "short": "to",
	"nn.functional.cross_entropy": "cross_entropy_loss", "nn.functional.interpolate": "upsample_bilinear2d",
	"nn.functional.upsample_bilinear": "upsample_bilinear2d", "nn.functional.upsample_nearest": "upsample_nearest2d",
	"nn.functional.logsigmoid":                    "log_sigmoid",
	"nn.functional.grid_sample":                   "grid_sampler",
	"nn.functional._scaled_dot_product_attention": "scaled_dot_product_attention",
	"lu": "linalg_lu_factor", "symeig": "linalg_eigh",
	"special.modified_bessel_i0": "i0", "special.modified_bessel_i1": "special_i1",
	"empty": "empty_strided", "new_empty_strided": "empty_strided", "fill": "full_like",
	"T": "numpy_T", "argwhere": "nonzero", "H": "matrix_H",
}

// missingReason is a reason why graphrun has no ops for some names of PyTorch's operator suite.
type missingReason struct {
	reason, patterns string // patterns of [path.Match], separated by spaces
}

// reasons are the reasons why names are missing. The first reason that matches a name applies.
var reasons = []missingReason{
	{"it changes its operand, but a value of a graph is written only once",
		"zero_ resize_ resize_as_"},
	{"its random numbers follow from a global generator, and no operand or attribute has the seed",
		"uniform normal randint_like nn.functional.dropout2d nn.functional.dropout3d nn.functional.rrelu " +
			"nn.functional.feature_alpha_dropout nn.functional.fractional_max_pool* svd_lowrank pca_lowrank"},
	{"there are no sparse tensors", "to_sparse sparse.*"},
	{"it compiles C++ text for GPUs; the op pointwise computes an expression instead", "jiterator_*"},
	{"there is no dtype complex32", "chalf"},
	{"its operands and results are shapes, not tensors", "broadcast_shapes"},
	{"it takes a Python function", "nn.functional.triplet_margin_with_distance_loss"},
	{"torch.masked is a prototype; the op where and a reduction compute the same", "masked.*"},
	{"the number of its terms depends on the value of an element, so that the time for an element has no bound",
		"special.hermite_polynomial_* special.laguerre_polynomial_l special.legendre_polynomial_p polygamma " +
			"special.polygamma special.zeta special.airy_ai"},
	{"it sums series and continued fractions of up to 2,000 terms, and formulas have no loops", "igamma igammac"},
	{"PyTorch's results are off by up to 9e-7 above 5: its polynomials lack the leading terms of their source",
		"special.bessel_*"},
	{"the number of its results is a binomial coefficient, which expressions of sizes do not contain", "combinations"},
	{"its eigenvalues are complex for real matrices; linalg_eigh is for symmetric matrices", "linalg.eig*"},
	{"it pivots with 1x1 and 2x2 blocks; linalg_lu_factor and linalg_solve take the same matrices", "linalg.ldl_*"},
	{"it returns statistics for the backward pass and updates running statistics; batch_norm computes its result",
		"native_batch_norm"},
	{"it accepts weights and several forms of bins; histc and searchsorted can count without weights",
		"histogram histogramdd"},
	{"it is a loss function for training, and the lengths of its sequences are values of a tensor",
		"nn.functional.ctc_loss"},
	{"the lengths of its segments are values of a tensor; index_add and index_reduce compute the same from indices",
		"segment_reduce"},
}
