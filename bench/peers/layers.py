"""Measures the distinct convolutions of networks, each with its bias and activation as a separate graph."""
import math
import os
import statistics
from dataclasses import dataclass, field

import models
from absent import Absent

ACTIVATIONS = ("Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu")

ASIDE = ("Transpose", "ReorderInput", "ReorderOutput", "Slice", "Neg")  # ONNX Runtime's nodes not counted: layout changes and the output


@dataclass
class Layer:
    """A convolution as a row. Its image is the network's input, with the network's layout, or an intermediate value.
    Each side chooses the layout of an intermediate value, and only the time of the convolution in it counts."""
    image: tuple
    weight: tuple
    result: tuple
    attrs: dict
    act: object  # the activation node, and its constants
    consts: list
    first: bool
    path: str = ""
    spec: str = ""
    networks: list = field(default_factory=list)
    times: int = 0  # occurrences in all networks
    unit, bytes, count = "us", 0, 1

    @property
    def flops(self):
        return 2 * math.prod(self.result) * math.prod(self.weight[1:])

    @property
    def title(self):
        x = "x".join
        kind = "depthwise, " if self.attrs.get("group", 1) == self.image[1] > 1 else ""
        text = f"{kind}{x(map(str, self.image[1:]))}; {x(map(str, self.weight))}"
        if max(self.attrs.get("strides", [1])) > 1:
            text += f"; stride {max(self.attrs['strides'])}"
        return text + (f"; {self.act.op_type}" if self.act else "")

    name = title


def distinct(paths, folder):
    """The convolutions of ONNX files in order, without those that differ only in their weights."""
    found = {}
    for path in paths:
        for key, layer in convolutions(path):
            layer = found.setdefault(key, layer)
            layer.times += 1
            network = os.path.basename(os.path.dirname(path)) or path
            if network not in layer.networks:
                layer.networks.append(network)
    for i, layer in enumerate(found.values()):
        layer.path = os.path.abspath(os.path.join(folder, f"layer{i}.onnx"))
        layer.spec = os.path.join(folder, f"layer{i}.ort.json")
        write(layer)
    return list(found.values())


def convolutions(path):
    import onnx
    m = onnx.shape_inference.infer_shapes(onnx.load(path))
    g = m.graph
    known = {t.name: t for t in g.initializer}
    known.update({n.output[0]: n.attribute[0].t for n in g.node if n.op_type == "Constant"})
    shapes = {v.name: tuple(d.dim_value or 1 for d in v.type.tensor_type.shape.dim)
              for v in [*g.input, *g.value_info, *g.output]}
    readers = {}
    for n in g.node:
        for name in n.input:
            readers.setdefault(name, []).append(n)
    inputs = {v.name for v in g.input}
    for n in g.node:
        if n.op_type != "Conv" or n.input[1] not in known:
            continue
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute}
        behind = readers.get(n.output[0], [])
        act = behind[0] if len(behind) == 1 and behind[0].op_type in ACTIVATIONS else None
        consts = [known[x] for x in act.input[1:] if x] if act else []
        layer = Layer(shapes[n.input[0]], tuple(known[n.input[1]].dims), shapes[n.output[0]], attrs, act, consts,
                      n.input[0] in inputs)
        what = act and (act.op_type, [str(a) for a in act.attribute], [bare(c).SerializeToString() for c in consts])
        yield str((layer.image, layer.weight, sorted(attrs.items()), what, layer.first)), layer


def bare(tensor):
    """The constant without its name."""
    from onnx import numpy_helper
    return numpy_helper.from_array(numpy_helper.to_array(tensor))


def write(layer):
    """Writes the graph of a layer. If the layout of the image is free, the input is channels-last, and a transpose
    precedes the convolution. Only one element of the result is an output, so that runs do not touch new memory."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
    rng = np.random.default_rng(0)
    random = {"w": layer.weight, "b": layer.weight[:1]}
    scale = 1 / math.sqrt(math.prod(layer.weight[1:]))
    constants = [numpy_helper.from_array((scale * rng.standard_normal(s)).astype(np.float32), k)
                 for k, s in random.items()]
    rank = len(layer.image)
    image = layer.image if layer.first else (layer.image[0], *layer.image[2:], layer.image[1])
    x, nodes = "x", []
    if not layer.first:
        nodes.append(helper.make_node("Transpose", ["x"], ["image"], perm=[0, rank - 1, *range(1, rank - 1)]))
        x = "image"
    nodes.append(helper.make_node("Conv", [x, "w", "b"], ["conv"], "conv", **layer.attrs))
    last = "conv"
    if layer.act:
        names = [f"act{i}" for i in range(len(layer.consts))]
        constants += [numpy_helper.from_array(numpy_helper.to_array(c), k) for c, k in zip(layer.consts, names)]
        act = onnx.NodeProto()
        act.CopyFrom(layer.act)
        given = iter(names)
        behind = [next(given) if name else "" for name in act.input[1:]]
        del act.input[:], act.output[:]
        act.name = "act"
        act.input.extend(["conv", *behind])
        act.output.append("act")
        nodes.append(act)
        last = "act"
    for name, value in (("from", 0), ("to", 1)):
        constants.append(numpy_helper.from_array(np.array([value] * rank, np.int64), name))
    nodes.append(helper.make_node("Slice", [last, "from", "to"], ["part"], "part"))
    nodes.append(helper.make_node("Neg", ["part"], ["tail"], "tail"))
    g = helper.make_graph(nodes, "layer", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, image)],
                          [helper.make_tensor_value_info("tail", onnx.TensorProto.FLOAT, [1] * rank)], constants)
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)])
    m.ir_version = 8
    onnx.save(m, layer.path)
    spec = {"files": [layer.path], "more": 0, "optimise": True, "profile": layer.path[:-5], "aside": ASIDE,
            "inputs": {"x": {"dtype": "float32", "shape": list(image)}}}
    models.save_spec(spec, layer.spec)


class LayerBench:
    """Measures layers: the sum of step times, without the setup of a run."""
    def __init__(self, bench):
        self.bench = bench

    def turn(self, side, row, threads):
        b = self.bench
        if side not in ("graphrun", "ort"):
            raise Absent("layers are compared with ONNX Runtime")
        if side in b.absent:
            raise Absent(b.absent[side])
        if side == "ort":
            return b.ort(row.spec, threads)
        steps = b.graphrun(row.path, threads, ["--profile", *b.strategy()])["by_step"]
        return sum(s["time_ns"] for s in steps if s["name"] != "tail") / 1e6


def table(results, machine):
    """One line for each layer: its times, also as FLOP rates and as fractions of the measured peak."""
    head = ["convolution", "threads", "graphrun", "ONNX Runtime", "ONNX Runtime / graphrun"]
    for side in ("graphrun", "ONNX Runtime"):
        head += [f"{side}, GFLOP/s", f"{side}, of the peak"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for r in results:
        times = {side: statistics.median(t) for side, t in r["times"].items() if t}
        cells = [r["title"], str(r["threads"])]
        cells += [f"{1e3 * times[s]:.3g} us" if s in times else "-" for s in ("graphrun", "ort")]
        both = [o / g for o, g in zip(r["times"]["ort"], r["times"]["graphrun"])]
        cells.append(f"{statistics.median(both):.2f}" if both else "-")
        peak = machine.get(r["threads"], {}).get("fma")
        for side in ("graphrun", "ort"):
            rate = r["flops"] / times[side] / 1e6 if side in times else None
            cells.append("-" if rate is None else f"{rate:.0f}")
            cells.append(f"{100 * rate / peak:.0f}%" if rate and peak else "-")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
