package suggest

// OpAliases maps names of other libraries, in lower case and without underscores, to the names of ops in aten. The
// names are from ONNX, numpy, TensorFlow, JAX, and PyTorch's modules and methods.
var OpAliases = map[string]string{
	"conv": "conv2d", "convolution": "conv2d", "thnnconv2d": "conv2d", "depthwiseconv2d": "conv2d",
	"convtranspose": "conv_transpose2d", "maxpool": "max_pool2d", "maxpooling2d": "max_pool2d",
	"averagepool": "avg_pool2d", "avgpool": "avg_pool2d", "averagepooling2d": "avg_pool2d",
	"globalaveragepool": "adaptive_avg_pool2d", "globalmaxpool": "adaptive_max_pool2d", "lppool": "lp_pool",
	"batchnormalization": "batch_norm", "batchnorm1d": "batch_norm", "batchnorm2d": "batch_norm",
	"batchnorm3d": "batch_norm", "nativebatchnorm": "batch_norm", "nativelayernorm": "layer_norm",
	"layernormalization": "layer_norm", "groupnormalization": "group_norm", "instancenormalization": "instance_norm",
	"rmsnormalization": "rms_norm", "simplifiedlayernormalization": "rms_norm", "lrn": "local_response_norm",
	"gemm": "addmm", "dense": "linear", "fullyconnected": "linear", "batchmatmul": "bmm", "nativedropout": "dropout",
	"mvn": "layer_norm",

	"multiply": "mul", "times": "mul", "subtract": "sub", "minus": "sub", "plus": "add", "divide": "div",
	"truedivide": "div", "floordiv": "floor_divide", "mod": "remainder", "power": "pow", "negative": "neg",
	"negate": "neg", "absolute": "abs", "fabs": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
	"arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "rint": "round", "fix": "trunc",
	"truncate": "trunc", "conj": "conj_physical", "conjugate": "conj_physical", "ln": "log", "exponential": "exp",
	"inverse": "reciprocal", "clip": "clamp", "clipbyvalue": "clamp", "equal": "eq", "notequal": "ne", "greater": "gt",
	"greaterequal": "ge", "greaterorequal": "ge", "less": "lt", "lessequal": "le", "lessorequal": "le",
	"and": "logical_and", "or": "logical_or", "xor": "logical_xor", "not": "logical_not", "invert": "bitwise_not",
	"bitshift": "bitwise_left_shift",

	"reducesum": "sum", "reducemean": "mean", "reducemax": "amax", "reducemin": "amin", "reduceprod": "prod",
	"reducelogsumexp": "logsumexp", "reducel2": "linalg_vector_norm", "reducel1": "linalg_vector_norm",
	"average": "mean", "product": "prod", "variance": "var", "nanmax": "amax", "nanmin": "amin", "reduceany": "any",
	"reduceall": "all", "vectornorm": "linalg_vector_norm",

	"astype": "to", "cast": "to", "castlike": "type_as", "tocopy": "to", "todtype": "to", "type": "to", "float": "to",
	"double": "to", "half": "to", "bfloat16": "to", "long": "to", "int": "to", "short": "to", "char": "to", "byte": "to",
	"bool": "to", "cfloat": "to", "convertelementtype": "to", "concat": "cat", "expanddims": "unsqueeze",
	"broadcast": "expand", "broadcastinaxis": "expand", "unsafeview": "view", "viewcopy": "view", "rollaxis": "movedim",
	"dynamicslice": "slice", "stridedslice": "slice", "getitem": "select", "splitv": "split_with_sizes",
	"arraysplit": "split", "copy": "clone", "identity": "alias", "unstack": "unbind", "fliplr": "flip", "flipud": "flip",
	"reverse": "flip", "zeropad2d": "constant_pad_nd", "reflectionpad2d": "pad", "replicationpad2d": "pad",
	"upsample": "upsample_nearest2d", "interpolate": "upsample_bilinear2d", "unfoldcopy": "unfold",
	"shape": "_shape_as_tensor", "size": "numel", "nelement": "numel", "gathernd": "gather_nd",
	"gatherelements": "gather", "scatterelements": "scatter", "scatterupdate": "scatter",
	"takealongaxis": "take_along_dim", "constantofshape": "full", "range": "arange", "eyelike": "eye",
	"depth2space": "depth_to_space", "space2depth": "space_to_depth", "trilu": "triu", "uniquewithcounts": "_unique2",

	"swish": "silu", "leakyrelu": "leaky_relu", "logsoftmax": "log_softmax", "thresholdedrelu": "threshold",
	"logistic": "sigmoid", "expit": "sigmoid", "fastgelu": "gelu", "randomnormal": "randn", "randomuniform": "rand",
	"normal": "randn", "uniform": "rand", "randomnormallike": "randn_like", "randomuniformlike": "rand_like",
	"crossentropy": "cross_entropy_loss", "softmaxcrossentropyloss": "cross_entropy_loss",
	"negativeloglikelihoodloss": "nll_loss", "embeddingbag": "embedding", "lookup": "embedding",
	"attention": "scaled_dot_product_attention", "multiheadattention": "scaled_dot_product_attention",
	"nonmaxsuppression": "non_max_suppression", "gridsample": "grid_sampler", "affinegrid": "affine_grid_generator",
	"ifft": "fft_ifft", "fft": "fft_fft", "rfft": "fft_rfft", "irfft": "fft_irfft", "determinant": "linalg_det",
	"cond": "if", "while": "loop", "whileloop": "loop", "iif": "where", "cumulativesum": "cumsum",
	"cumulativeproduct": "cumprod",
}

// AttrAliases maps names of attributes in numpy and ONNX to those of aten.
var AttrAliases = map[string]string{"axis": "dim", "axes": "dim", "keepdims": "keepdim", "perm": "dims",
	"pads": "padding", "pad": "padding", "strides": "stride", "dilations": "dilation", "group": "groups",
	"kernel_shape": "kernel_size", "epsilon": "eps"}
