"""The rows: each defines the same work for every side, and the machine's limit for it."""
from dataclasses import dataclass
from typing import Callable, Optional

M16, K64 = 1 << 24, 1 << 16


@dataclass
class Input:
    shape: tuple
    dtype: str = "float32"
    channels_last: bool = False


@dataclass
class Row:
    name: str
    title: str
    inputs: dict                    # name -> Input
    nodes: list                     # of the graph file; the last node is the result
    torch: Callable                 # (torch, inputs by name) -> variants; the fastest counts
    limit: tuple                    # arguments of limits.c: a case and its sizes
    bytes: int                      # minimum traffic: bytes read and written
    numpy: Optional[Callable] = None  # (numpy, inputs by name) -> variants
    onnx: Optional[Callable] = None   # (repetition, name of the previous result) -> nodes, result
    repeat: int = 1                 # onnx: time of 5 * repeat nodes minus that of repeat; 0: of one model
    optimise: bool = True           # onnx: whether graphs are optimized, which fuses nodes
    flat: tuple = ()                # the result's dimensions in memory order, if it is not row-major
    small: bool = False             # measure the time of the step, not that of the run
    count: int = 1                  # number of operations in a run
    unit: str = "ms"
    whole: bool = False  # many steps with a small result, without an arena variant


def node(name, op, inputs, **attrs):
    n = {"name": name, "op": op, "inputs": inputs}
    return {**n, "attrs": attrs} if attrs else n


def graph(row, arena=False):
    """The graph file of a row. Its output is the result. In the arena variant the result stays in the arena, which all
    runs reuse, and the output is one of its elements, to measure only the time of the loop."""
    nodes = list(row.nodes)
    last = nodes[-1]["name"]
    if arena:
        if row.flat:
            nodes.append(node("tail_order", "permute", [last], dims=list(row.flat)))
            last = "tail_order"
        nodes += [node("tail_flat", "view", [last], size=[-1]),
                  node("tail_first", "select", ["tail_flat"], dim=0, index=0), node("tail", "neg", ["tail_first"])]
        last = "tail"
    inputs = [{"name": k, "dtype": i.dtype, "shape": list(i.shape),
               **({"memory_format": "channels_last"} if i.channels_last else {})} for k, i in row.inputs.items()]
    return {"version": 1, "name": row.name, "inputs": inputs, "nodes": nodes, "outputs": [last]}


def onnx_op(op, *more, **attrs):
    """A chain of one operator, applied to the previous result and to other inputs."""
    return lambda i, last: ([(op, [last, *more], [f"t{i}"], attrs)], f"t{i}")


def unary(name, n, torch_form, numpy_form, onnx_step):
    small = n == K64
    size = "64K" if small else "16M"
    return Row(name + ("_l2" if small else ""), f"{name}, {size}", {"x": Input((n,))}, [node("y", name, ["x"])],
               torch_form, ("copy", n), 8 * n, numpy_form, onnx_step, 20 if small else 1, small=small,
               unit="us" if small else "ms")


def torch_out(name):
    def forms(torch, v):
        o = torch.empty_like(v["x"])
        f = torch._C._nn.gelu if name == "gelu" else getattr(torch, name)
        return [lambda: f(v["x"], out=o)]
    return forms


def numpy_out(name):
    def forms(np, v):
        o = np.empty_like(v["x"])
        return [lambda: getattr(np, name)(v["x"], out=o)]
    return forms


def numpy_sigmoid(np, v):
    o = np.empty_like(v["x"])

    def run():
        np.negative(v["x"], out=o)
        np.exp(o, out=o)
        np.add(o, 1, out=o)
        np.reciprocal(o, out=o)
    return [run]


def unaries():
    for n in (M16, K64):
        yield unary("exp", n, torch_out("exp"), numpy_out("exp"), onnx_op("Exp"))
        yield unary("sigmoid", n, torch_out("sigmoid"), numpy_sigmoid, onnx_op("Sigmoid"))
        yield unary("tanh", n, torch_out("tanh"), numpy_out("tanh"), onnx_op("Tanh"))
        yield unary("gelu", n, torch_out("gelu"), None, onnx_op("com.microsoft:Gelu"))


def torch_add(torch, v):
    o = torch.empty_like(torch.add(v["a"], v["b"]))
    return [lambda: torch.add(v["a"], v["b"], out=o)]


def numpy_add(np, v):
    o = np.add(v["a"], v["b"])
    return [lambda: np.add(v["a"], v["b"], out=o)]


def adds():
    def add(name, title, a, b, limit, nbytes, numpy=numpy_add, onnx=None, flat=()):
        return Row(name, title, {"a": a, "b": b}, [node("y", "add", ["a", "b"])], torch_add, limit, nbytes, numpy, onnx,
                   flat=flat)
    n = M16
    yield add("add", "add, 16M float32", Input((n,)), Input((n,)), ("add", n), 12 * n, onnx=onnx_op("Add", "b"))
    yield add("add_int", "int32 + float32, 16M", Input((n,), "int32"), Input((n,)), ("add", n), 12 * n)
    for dtype in ("float16", "bfloat16"):
        yield add("add_" + dtype, f"add, 16M {dtype}", Input((n,), dtype), Input((n,), dtype), ("add", n // 2), 6 * n,
                  numpy_add if dtype == "float16" else None)
    square = Input((4096, 4096))
    yield Row("add_t", "4096x4096 + transposed", {"a": square, "b": square},
              [node("t", "permute", ["b"], dims=[1, 0]), node("y", "add", ["a", "t"])],
              lambda torch, v: torch_add(torch, {"a": v["a"], "b": v["b"].t()}), ("add_t", 4096), 12 * n,
              lambda np, v: numpy_add(np, {"a": v["a"], "b": v["b"].T}))
    images = 32 * 64 * 56 * 56
    yield add("add_mixed", "channels-last (32,64,56,56) + contiguous (64,56,56)",
              Input((32, 64, 56, 56), "float32", True), Input((64, 56, 56)), ("copy", images), 8 * images,
              flat=(0, 2, 3, 1))


def torch_chain(torch, v):
    o = torch.empty_like(v["a"])

    def run():
        torch.mul(v["a"], v["b"], out=o)
        o.add_(v["c"]).relu_().mul_(v["d"]).sub_(v["e"])
    return [run]


def numpy_chain(np, v):
    o = np.empty_like(v["a"])

    def run():
        np.multiply(v["a"], v["b"], out=o)
        np.add(o, v["c"], out=o)
        np.maximum(o, 0, out=o)
        np.multiply(o, v["d"], out=o)
        np.subtract(o, v["e"], out=o)
    return [run]


def onnx_chain(i, last):
    names = [f"m{i}", f"p{i}", f"r{i}", f"q{i}", f"t{i}"]
    steps = [("Mul", [last, "b"]), ("Add", [names[0], "c"]), ("Relu", [names[1]]), ("Mul", [names[2], "d"]),
             ("Sub", [names[3], "e"])]
    return [(op, ins, [out], {}) for (op, ins), out in zip(steps, names)], names[-1]


def chains():
    n = M16
    yield Row("chain", "relu(a*b+c)*d-e, 16M", {k: Input((n,)) for k in "abcde"},
              [node("m", "mul", ["a", "b"]), node("p", "add", ["m", "c"]), node("r", "relu", ["p"]),
               node("q", "mul", ["r", "d"]), node("y", "sub", ["q", "e"])],
              torch_chain, ("chain", n), 24 * n, numpy_chain, onnx_chain)


def copied(order=None, channels_last=False):
    """Copies an operand with permuted dimensions into existing memory."""
    def torch_forms(torch, v):
        x = v["x"].permute(*order) if order else v["x"]
        o = torch.empty_like(x, memory_format=torch.channels_last if channels_last else torch.contiguous_format)
        return [lambda: o.copy_(x)]

    def numpy_forms(np, v):
        x = v["x"].transpose(order) if order else v["x"]
        x = x.transpose(0, 2, 3, 1) if channels_last else x
        o = np.empty(x.shape, x.dtype)
        return [lambda: np.copyto(o, x)]
    return torch_forms, numpy_forms


def permuted(name, title, shape, order, limit):
    torch_forms, numpy_forms = copied(order)
    size = 1
    for s in shape:
        size *= s
    nodes = [node("p", "permute", ["x"], dims=list(order)), node("y", "contiguous", ["p"])]
    return Row(name, title, {"x": Input(shape)}, nodes, torch_forms, limit, 8 * size, numpy_forms,
               onnx_op("Transpose", perm=list(order)), optimise=False)


def reordered(shape, to_last, small):
    b, c, h, w = shape
    torch_forms, numpy_forms = copied(None, to_last)
    attrs = {"memory_format": "channels_last"} if to_last else {}
    name = ("nhwc" if to_last else "nchw") + ("_small" if small else "")
    limit = ("transpose", b, c, h * w) if to_last else ("transpose", b, h * w, c)
    text = "NCHW to NHWC" if to_last else "NHWC to NCHW"
    return Row(name, f"{text}, {shape}".replace(" ", "").replace("to", " to ").replace(",(", ", ("),
               {"x": Input(shape, "float32", not to_last)}, [node("y", "contiguous", ["x"], **attrs)], torch_forms,
               limit, 8 * b * c * h * w, numpy_forms, flat=(0, 2, 3, 1) if to_last else ())


def copies():
    yield permuted("transpose", "transpose 4096x4096", (4096, 4096), (1, 0), ("transpose", 1, 4096, 4096))
    # Moving the last dimension to the front is a transpose of a 65536 x 256 matrix.
    yield permuted("permute", "permute(2,0,1) of 256^3", (256, 256, 256), (2, 0, 1), ("transpose", 1, 65536, 256))
    for shape, small in (((32, 64, 56, 56), False), ((8, 512, 14, 14), True)):
        for to_last in (True, False):
            yield reordered(shape, to_last, small)


def sums():
    for name, dims in (("last", [2]), ("middle", [1]), ("first", [0]), ("all", None)):
        def torch_forms(torch, v, dims=dims):
            if dims is None:
                return [lambda: torch.sum(v["x"])]
            o = torch.empty(256, 256)
            return [lambda: torch.sum(v["x"], dims, out=o)]

        def numpy_forms(np, v, dims=dims):
            return [lambda: np.sum(v["x"], None if dims is None else dims[0])]

        def onnx_step(i, last, dims=dims):
            ins = [last] + (["axes"] if dims else [])
            return [("ReduceSum", ins, [f"t{i}"], {"keepdims": 0, "_axes": dims})], f"t{i}"
        attrs = {} if dims is None else {"dim": dims}
        yield Row("sum_" + name, f"sum of 256^3 over {name}", {"x": Input((256, 256, 256))},
                  [node("y", "sum", ["x"], **attrs)], torch_forms, ("read", M16), 4 * M16, numpy_forms, onnx_step, 0)


def torch_softmax(torch, v):
    o = torch.empty_like(v["x"])
    return [lambda: torch._softmax(v["x"], -1, False, out=o)]


def torch_layer_norm(torch, v):
    return [lambda: torch.nn.functional.layer_norm(v["x"], (4096,), v["w"], v["b"])]


def norms():
    square, line = Input((4096, 4096)), Input((4096,))
    yield Row("softmax", "softmax 4096x4096, last dim", {"x": square}, [node("y", "softmax", ["x"], dim=-1)],
              torch_softmax, ("copy", M16), 8 * M16, None, onnx_op("Softmax", axis=-1))
    yield Row("layer_norm", "layer_norm 4096x4096", {"x": square, "w": line, "b": line},
              [node("y", "layer_norm", ["x", "w", "b"], normalized_shape=[4096])], torch_layer_norm, ("copy", M16),
              8 * M16, None, onnx_op("LayerNormalization", "w", "b", axis=-1))


FMA_TURN = 2 * 16 * 12  # operations in an iteration of fma_peak in limits.c


def products():
    """Products of square matrices. The limit is the processor's peak rate of multiply-adds."""
    def torch_forms(torch, v):
        o = torch.empty_like(v["a"])
        return [lambda: torch.mm(v["a"], v["b"], out=o)]

    def numpy_forms(np, v):
        o = np.empty_like(v["a"])
        return [lambda: np.matmul(v["a"], v["b"], out=o)]
    for n in (64, 96, 128, 256, 512, 1024, 2048):
        small = n <= 256
        yield Row(f"matmul_{n}", f"matmul of {n}x{n} by {n}x{n}", {"a": Input((n, n)), "b": Input((n, n))},
                  [node("y", "mm", ["a", "b"])], torch_forms, ("fma", 2 * n ** 3 // FMA_TURN), 12 * n * n, numpy_forms,
                  onnx_op("MatMul", "b"), 20 if small else 1, small=small, unit="us" if small else "ms")


def tinies():
    """Chains of 1000 steps with 10 elements, which add a number or a tensor. Views between the steps prevent grouping,
    to measure the cost of a step. Without views graphrun may group the steps."""
    def tiny(name, title, number, views):
        def torch_forms(torch, v):
            o, y = torch.empty(10), torch.tensor(1.5) if number else v["y"]

            def eager():
                for _ in range(1000):
                    torch.add(v["x"], y, out=o)

            def chain(x, y):
                for _ in range(1000):
                    x = x + (1.5 if number else y)
                return x
            compiled = torch.jit.trace(chain, (v["x"], v["y"]))
            return [eager, lambda: compiled(v["x"], v["y"])]

        def numpy_forms(np, v):
            o, y = np.empty_like(v["x"]), np.float32(1.5) if number else v["y"]

            def run():
                for _ in range(1000):
                    np.add(v["x"], y, out=o)
            return [run]
        nodes, last = [] if number or not views else [node("y2", "view", ["y"], size=[5, 2])], "x"
        for i in range(1000):
            flat = i % 2 == 0 or not views
            nodes.append(node(f"s{i}", "add", [last, 1.5 if number else "y" if flat else "y2"]))
            last = f"s{i}"
            if views and i < 999:
                last = f"v{i}"
                nodes.append(node(last, "view", [f"s{i}"], size=[5, 2] if flat else [10]))
        return Row(name, title, {"x": Input((10,)), "y": Input((10,))}, nodes, torch_forms, None, 120, numpy_forms,
                   onnx_op("Add", "y"), 200, count=1000, unit="ns", whole=True)
    yield tiny("tiny", "x + number, 10 elements, one of a chain of 1000, each a step", True, True)
    yield tiny("tiny_tensor", "x + y, 10 elements, one of a chain of 1000, each a step", False, True)
    yield tiny("tiny_chain", "x + number, 10 elements, one of a chain of 1000, as graphrun groups them", True, False)


def all_rows():
    return [r for family in (adds, unaries, chains, copies, sums, norms, products, tinies) for r in family()]
