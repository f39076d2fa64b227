"""Creates cases: a model, its inputs, and the expected outputs."""
import io
import string
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CASES = []
_random = None


def begin():
    """Starts a new family of cases, with its own random numbers."""
    CASES.clear()
    seed("begin")


def seed(text):
    global _random
    _random = np.random.default_rng(zlib.crc32(text.encode()))


def f(*shape, low=-3.0, high=3.0):
    """Distinct, evenly spaced floats in random order, so that there are no ties."""
    n = int(np.prod(shape))
    x = np.linspace(low, high, n) if n > 1 else np.full(n, 0.7 * high + 0.3 * low)
    return _random.permutation(x).astype(np.float32).reshape(shape)


def ints(*shape, low=-9, high=9, dtype=np.int64):
    return _random.integers(low, high + 1, shape).astype(dtype)


def bools(*shape):
    return _random.integers(0, 2, shape).astype(bool)


def i64(*list):
    return np.array(list, np.int64)


def scalar(x, dtype=np.int64):
    return np.array(x, dtype)


def npy(a):
    buf = io.BytesIO()
    np.lib.format.write_array(buf, np.asarray(a, order="C"), version=(1, 0), allow_pickle=False)
    return buf.getvalue()


def kind(a):
    if a.dtype.kind == "U":
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(a.dtype) if hasattr(helper, "np_dtype_to_tensor_dtype") else \
        onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[a.dtype]


class Case:
    """A model, its inputs, the expected outputs, and for a pipeline their source."""

    def __init__(self, name, model, inputs, outputs):
        self.name, self.model, self.inputs, self.outputs, self.source = name, model, inputs, outputs, ""


def graph(name, nodes, inputs, outputs, opset=17, known=None, open_sizes=None, ml=1, maps=None):
    """Adds a case with several nodes. inputs, outputs and known (initializers) are arrays by name.

    open_sizes names symbolic sizes by input: {"x": {0: "N"}}. ml is the version of the domain ai.onnx.ml. maps has the
    types of inputs that are maps, by name; the arrays of such an input m are m.keys and m.values.
    """
    def info(k, a):
        dims = [(open_sizes or {}).get(k, {}).get(i, n) for i, n in enumerate(a.shape)]
        return helper.make_tensor_value_info(k, kind(a), dims)
    inputs = {k: np.asarray(v) for k, v in inputs.items()}
    outputs = {k: np.asarray(v) for k, v in outputs.items()}
    out = [helper.make_tensor_value_info(k, kind(v), None) for k, v in outputs.items()]
    weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in (known or {}).items()]
    tensors = {k: v for k, v in inputs.items() if k.partition(".")[0] not in (maps or {})}
    infos = [info(k, v) for k, v in tensors.items()] + [helper.make_value_info(k, t) for k, t in (maps or {}).items()]
    g = helper.make_graph(nodes, "case", infos, out, weights)
    others = sorted({n.domain for n in nodes if n.domain})  # of version 1, except ai.onnx.ml
    sets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, ml if d == "ai.onnx.ml" else 1) for d in others]
    model = helper.make_model(g, opset_imports=sets, producer_name="graphrun")
    model.ir_version = 8
    CASES.append(Case(name, model, inputs, outputs))
    seed(name)


def op(kind_, operands, want, opset=17, known=(), name="", outputs=None, **attrs):
    """Adds a case with one node. Operands are arrays, or None if omitted; known selects the initializers.

    want is an array, a list of arrays (None for an omitted output), or a function of the operands.
    """
    if callable(want):
        want = want(*[o for o in operands if o is not None])
    if not isinstance(want, (list, tuple)):
        want = [want]
    names = ["" if o is None else string.ascii_lowercase[i] for i, o in enumerate(operands)]
    results = ["" if w is None else "y%d" % i for i, w in enumerate(want)]
    node = helper.make_node(kind_, names, results, **attrs)
    arrays = {n: np.asarray(o) for n, o in zip(names, operands) if n}
    weights = {names[i]: arrays[names[i]] for i in known}
    count = sum(1 for c in CASES if c.name.split(".")[0] == kind_)
    graph("%s.%s%s" % (kind_, "v%d" % opset, "." + name if name else "." + str(count)), [node],
          {k: v for k, v in arrays.items() if k not in weights},
          {r: np.asarray(w) for r, w in zip(results, want) if r}, opset, weights)


def node(kind_, inputs, outputs, **attrs):
    return helper.make_node(kind_, inputs.split() if isinstance(inputs, str) else inputs, outputs.split(), **attrs)


def body(name, nodes, inputs, outputs, known=None):
    """A subgraph with inputs and outputs by name, as (dtype, shape)."""
    def info(k, t):
        return helper.make_tensor_value_info(k, t[0], t[1])
    weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in (known or {}).items()]
    return helper.make_graph(nodes, name, [info(k, t) for k, t in inputs.items()],
                             [info(k, t) for k, t in outputs.items()], weights)


FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
