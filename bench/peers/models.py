"""Writes ONNX files for ONNX Runtime: the operation of a row, and the inputs of a whole model."""
import json
import os

TYPES = {"float32": 1, "uint8": 2, "int32": 6, "int64": 7, "bool": 9, "float64": 11}


def write(row, folder):
    """Writes the models of a row, and returns the path of their specification for side_ort.js."""
    k = row.repeat
    files = [one(row, n, os.path.join(folder, f"{row.name}_{n}.onnx")) for n in ([k, 5 * k] if k else [1])]
    spec = {"files": files, "more": 4 * k, "optimise": row.optimise,
            "inputs": {name: {"dtype": i.dtype, "shape": list(i.shape)} for name, i in row.inputs.items()}}
    return save_spec(spec, os.path.join(folder, row.name + ".ort.json"))


def save_spec(spec, path):
    with open(path, "w") as f:
        json.dump(spec, f)
    return path


def one(row, times, path):
    import onnx
    from onnx import helper, numpy_helper
    import numpy as np
    nodes, constants, last = [], [], next(iter(row.inputs))
    for i in range(times):
        made, last = row.onnx(i, last)
        for op, ins, outs, attrs in made:
            axes = attrs.get("_axes")
            if axes:
                constants.append(numpy_helper.from_array(np.array(axes, np.int64), "axes"))
            domain, _, name = op.rpartition(":")
            nodes.append(helper.make_node(name, ins, outs, domain=domain,
                                          **{k: v for k, v in attrs.items() if not k.startswith("_")}))
    if row.repeat:  # because a large result would be copied
        nodes.append(helper.make_node("ReduceMax", [last], ["largest"], keepdims=0))
        last = "largest"
    values = [helper.make_tensor_value_info(k, TYPES[i.dtype], i.shape) for k, i in row.inputs.items()]
    result = helper.make_tensor_value_info(last, TYPES["float32"], None)
    g = helper.make_graph(nodes, row.name, values, [result], constants)
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    m.ir_version = 8
    onnx.save(m, path)
    return path


def whole(path, to):
    """Writes the specification of a model for side_ort.js to a file; returns the model's symbolic sizes, all as 1."""
    import onnx
    m = onnx.load(path, load_external_data=False)
    known = {t.name for t in m.graph.initializer}
    inputs, open_sizes = {}, {}
    for v in m.graph.input:
        if v.name in known:
            continue
        t = v.type.tensor_type
        dtype = next((k for k, n in TYPES.items() if n == t.elem_type), None)
        if dtype is None:
            raise ValueError(f"input {v.name} has an unsupported dtype")
        for d in t.shape.dim:
            if d.dim_param:
                open_sizes[d.dim_param] = 1
        inputs[v.name] = {"dtype": dtype, "shape": [d.dim_value or 1 for d in t.shape.dim]}
    spec = {"files": [os.path.abspath(path)], "more": 0, "optimise": True, "inputs": inputs}
    save_spec(spec, to)
    return open_sizes
