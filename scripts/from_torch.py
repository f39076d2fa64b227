#!/usr/bin/env python3
"""Writes a PyTorch module as a graph file of graphrun, with the strides that PyTorch gives each value.

    scripts/from_torch.py torchvision.models:resnet18 --shape 1,3,224,224 --channels-last -o resnet18.json
    scripts/from_torch.py networks.py:decoder -o decoder.json
    graphrun infer decoder.json --expect decoder.strides.json

writes FILE.json, the weights as FILE.safetensors, and FILE.strides.json: dtype, shape, strides and offset (in
elements) of every value, and the operand with which it shares storage. graphrun infer --expect compares them with its
own inference. MODULE is importable:FUNCTION or path.py:FUNCTION; the function returns a module, or a module and a tuple
of inputs. In Python: export(module, inputs, "FILE.json").

Run with: Python 3.11.2, PyTorch 1.13.0 and torchvision 0.14.1 on a CPU; with no other version. The strides are those of
real tensors: a TorchDispatchMode, on which make_fx is based, sees each aten op that the eager module calls, and its
results. Sizes, and branches on data, are those of the run. Modules are in eval mode, without gradients; the fused
kernel of torch.nn.TransformerEncoder is not used. An op that writes in place becomes one that returns its result, which
is copied where its strides would differ; other views of the written memory are taken from the result.

Names of ops come from `graphrun ops --json`: the command graphrun, or $GRAPHRUN. Ops that graphrun lacks are
decomposed, if PyTorch has a decomposition; otherwise the error lists them.
"""
import argparse
import ast
import collections
import importlib
import inspect
import json
import math
import os
import subprocess
import sys

import torch
from torch._decomp import decomposition_table
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

NAMES = {torch.bool: ("bool", "BOOL"), torch.uint8: ("uint8", "U8"), torch.int8: ("int8", "I8"),
         torch.int16: ("int16", "I16"), torch.int32: ("int32", "I32"), torch.int64: ("int64", "I64"),
         torch.float16: ("float16", "F16"), torch.bfloat16: ("bfloat16", "BF16"), torch.float32: ("float32", "F32"),
         torch.float64: ("float64", "F64"), torch.complex64: ("complex64", "C64"),
         torch.complex128: ("complex128", "C128")}  # as in graph files and in safetensors
FORMATS = {torch.contiguous_format: "contiguous", torch.channels_last: "channels_last",
           torch.channels_last_3d: "channels_last_3d", torch.preserve_format: "preserve"}

# Arguments that mean nothing in a graph on the CPU.
IGNORED = {"device", "layout", "pin_memory", "generator", "non_blocking"}

# Ops of aten below the interface of torch, and the ops of graphrun that are the same: name, then changed arguments.
# None removes an argument, and a string renames it.
RENAMED = {
    "_adaptive_avg_pool2d": ("adaptive_avg_pool2d", {}), "_adaptive_avg_pool3d": ("adaptive_avg_pool3d", {}),
    "_log_softmax": ("log_softmax", {"half_to_float": None}), "_softmax": ("softmax", {"half_to_float": None}),
    "_reshape_alias": ("view", {"stride": None}), "_unsafe_view": ("view", {}), "_to_copy": ("to", {}),
    "convolution": ("conv", {"transposed": None}), "native_batch_norm": ("batch_norm", {}),
    "native_group_norm": ("group_norm", {"N": None, "C": None, "HxW": None, "group": "num_groups"}),
    "lift_fresh": ("alias", {}), "unsafe_split": ("split", {}), "unsafe_chunk": ("chunk", {}),
    "zero": ("zeros_like", {}), "fill": ("full_like", {"value": "fill_value"}),
    "scalar_tensor": ("full", {"s": "fill_value"}),
}


class Missing(ValueError):
    """graphrun lacks ops that the module calls."""


class NoFastPath(TorchFunctionMode):
    """The fused kernel of torch.nn.TransformerEncoder is not used while a function mode is on."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def graphrun_ops():
    """The ops of graphrun by name: the names of the arguments that are not tensors."""
    command = os.environ.get("GRAPHRUN", "graphrun")
    try:
        text = subprocess.run([command, "ops", "--json"], capture_output=True, check=True).stdout
    except OSError as e:
        raise SystemExit("from_torch.py: %s lists the ops of graphrun: %s; set GRAPHRUN" % (command, e.strerror))
    return {o["name"]: {p["name"] for p in o["attributes"]} | {p.get("attribute") for p in o["operands"]}
            for o in json.loads(text)["ops"]}


def flat(value):
    """The tensors in nested lists and dicts, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in flat(v)] if isinstance(value, (list, tuple)) else []


def spelled(v):
    """A plain value as JSON has it."""
    if isinstance(v, (list, tuple)):
        return [spelled(x) for x in v]
    if isinstance(v, float) and not math.isfinite(v):
        return "NaN" if v != v else "Infinity" if v > 0 else "-Infinity"
    if isinstance(v, torch.dtype):
        return NAMES[v][0]
    return FORMATS[v] if isinstance(v, torch.memory_format) else str(v) if isinstance(v, complex) else v


def storage(t):
    """Identifies the storage of a tensor."""
    return t.storage()._cdata


def layout(t):
    return list(t.shape), list(t.stride()), t.storage_offset()


class Trace(TorchDispatchMode):
    """Records the aten ops that are called while it is active as nodes of a graph.

    A tensor that an op writes in place has one value of the graph before, and another one afterwards. values has the
    value of each tensor by the tensor's id, and the number of earlier writes to its storage. owners has the same for
    each storage, with the layout of the value.
    """

    def __init__(self, ops):
        super().__init__()
        self.ops, self.nodes, self.constants, self.strides = ops, [], {}, {}
        self.values, self.owners, self.kept, self.used = {}, {}, [], set()
        self.parameters, self.path, self.whole = {}, [""], None  # whole: the op that is being decomposed
        self.decomposed, self.missing, self.fixed, self.mapped = (collections.Counter() for _ in range(4))

    def unique(self, name):
        n, base = 0, name
        while name in self.used:
            n += 1
            name = "%s_%d" % (base, n)
        self.used.add(name)
        return name

    def bind(self, name, t, aten, alias=None):
        """Makes name the value of a tensor, and describes it in the strides file."""
        owner = self.owners.setdefault(storage(t), [name, layout(t), 0])
        self.values[id(t)] = name, owner[2]
        self.kept.append(t)  # an id is unique while its object exists
        self.strides[name] = {"name": name, "aten": str(aten), "dtype": NAMES[t.dtype][0], "shape": list(t.shape),
                              "strides": list(t.stride()), "offset": t.storage_offset(), "alias_of": alias}

    def value(self, t):
        """The name of a tensor's value. A tensor that no recorded op made is a constant, or a view of a known value."""
        owner = self.owners.get(storage(t))
        name, writes = self.values.get(id(t), (None, None))
        if name == "":
            self.missing["a result of native_batch_norm or native_group_norm other than the first"] += 1
        elif owner and writes != owner[2]:
            name = self.node("as_strided", [owner[0]], dict(zip(("size", "stride", "storage_offset"), layout(t))))[0]
            self.bind(name, t, "as_strided", owner[0])
        elif name is None:
            name = self.unique(self.parameters.get(id(t), "constant"))
            self.constants[name] = t.detach()
            self.bind(name, t, "constant")
        return name

    def node(self, op, inputs, attrs, results=1):
        """Adds a node; returns the names of its results."""
        name = self.unique(".".join(filter(None, [self.path[-1], op])))
        names = [name] if results == 1 else [self.unique("%s.%d" % (name, i)) for i in range(results)]
        self.nodes.append({"name": name, "op": op, "inputs": inputs, "attrs": attrs, "outputs": names})
        return names

    def resolve(self, func, given):
        """graphrun's op for an overload of aten, and the names of the arguments that it calls otherwise."""
        op = func._schema.name[len("aten::"):]
        if op not in self.ops and op.endswith("_"):
            op = op[:-1]
        if op.startswith(("empty", "new_empty")):
            return "empty_strided", {}
        if op.startswith(("reflection_pad", "replication_pad")):
            return "pad", {"padding": "pad"}
        if op == "fill" and isinstance(given["value"], torch.Tensor):
            return "copy", {}
        op, changes = RENAMED.get(op, (op, {}))
        if op == "conv":
            transposed = given["transposed"]
            op = "conv%s%dd" % ("_transpose" if transposed else "", given["weight"].dim() - 2)
            changes = changes if transposed else dict(changes, output_padding=None)
        return op, changes

    def convert(self, func, op, changes, given, result):
        """The operands and attributes of a node for a call of aten. given has the arguments by name."""
        inputs, attrs, types = [], {}, {a.name: str(a.type) for a in func._schema.arguments}
        if op == "empty_strided":
            given = dict(zip(("size", "stride"), layout(result)))
        if op == "index_put":
            given = {k: given[k] for k in ("self", "values", *given)}
        for a in func._schema.arguments:
            if a.has_default_value() and a.default_value is not None and given.get(a.name) == a.default_value:
                del given[a.name]
        for name, v in given.items():
            new = changes.get(name, name)
            if "Tensor" in types.get(name, ""):
                inputs += [self.value(x) if isinstance(x, torch.Tensor) else spelled(x)
                           for x in (v if isinstance(v, (list, tuple)) else [v])]
            elif new and new not in IGNORED and v is not None:
                attrs[new] = spelled(v)
        while inputs and inputs[-1] is None:
            inputs.pop()
        if op == "pad":
            attrs["mode"] = "reflect" if "reflection" in str(func) else "replicate"
        if op == "full":
            attrs.setdefault("size", list(result.shape))
        if not inputs and "dtype" in self.ops.get(op, ()):
            attrs["dtype"] = NAMES[result.dtype][0]
        return inputs, attrs

    def __torch_dispatch__(self, func, classes, args=(), kwargs=None):
        arguments = func._schema.arguments
        given = dict(zip((a.name for a in arguments), args), **(kwargs or {}))
        op, changes = self.resolve(func, given)
        if op not in self.ops and func in decomposition_table:
            outer, self.whole = self.whole, self.whole or func
            self.decomposed[str(func)] += 1
            with self:
                result = decomposition_table[func](*args, **(kwargs or {}))
            self.whole = outer
            return result
        written = [t for a in arguments if a.alias_info and a.alias_info.is_write for t in flat([given.get(a.name)])]
        operands = flat(list(given.values()))
        for t in operands:  # before the call, because it may change the tensor
            self.value(t)
        for name, t in self.constants.items():
            if any(storage(t) == storage(w) for w in written):
                self.constants[name] = t.clone()
        pure = self.pure(func, args, kwargs or {}) if written else None
        result = func(*args, **(kwargs or {}))
        results = flat([result])
        if not results:
            self.fixed[str(func)] += 1
        elif written or not all(any(r is t for t in operands) for r in results):
            given.pop("out", None)
            self.mapped[str(func), op] += 1
            inputs, attrs = self.convert(func, op, changes, given, results[0])
            self.missing.update([str(self.whole or func)] if op not in self.ops else
                                ["attribute %s of %s" % (a, func) for a in attrs if a not in self.ops[op]])
            if torch.Tag.inplace_view in func.tags:
                source = self.values[id(results[0])][0]
                self.bind(self.node(op, inputs, attrs)[0], results[0], func, source)
            elif written:
                self.write(func, op, inputs, attrs, results, pure)
            else:
                count = 1 if op in ("batch_norm", "group_norm") else len(results)
                names = self.node(op, inputs, attrs, count)
                for r, name in zip(results, names + [""] * (len(results) - count)):
                    source = next((self.values[id(t)][0] for t in operands if storage(t) == storage(r)), None)
                    self.bind(name, r, func, source)
        return result

    @staticmethod
    def pure(func, args, kwargs):
        """The result of the op that does not write in place, if there is one that takes these arguments."""
        packet = getattr(torch.ops.aten, func._schema.name[len("aten::"):].rstrip("_"), None)
        try:
            return getattr(packet, func._schema.overload_name or "default")(*args, **kwargs)
        except (AttributeError, RuntimeError):
            return None

    def write(self, func, op, inputs, attrs, results, pure):
        """Adds the node of an op that writes in place, with the result that takes the place of the tensor's value.

        pure is what the op returns without writing. If it is laid out otherwise, it is copied to the tensor's layout.
        """
        if len(results) > 1:
            self.missing["%s, which writes to %d tensors" % (func, len(results))] += 1
        t = results[0]
        old, name = self.values[id(t)][0], self.node(op, inputs, attrs)[0]
        owner = self.owners[storage(t)]
        whole = owner[1] == layout(t)
        if not whole:  # t is a view: the next read of any tensor of the storage takes it from the result
            attrs = dict(zip(("size", "stride", "storage_offset"), layout(t)))
            name = self.node("as_strided_scatter", [owner[0], name], attrs)[0]
        elif op != "copy" and pure is not None and (pure.dtype, pure.stride()) != (t.dtype, t.stride()):
            name = self.node("copy", [old, name], {})[0]
        owner[0], owner[2] = name, owner[2] + 1
        if whole:
            self.bind(name, t, func)


def trace(module, inputs):
    """Runs a module; returns the trace, the names of its inputs, and its outputs: value by name, and tensors."""
    t = Trace(graphrun_ops())
    t.parameters = {id(p): n for n, p in [*module.named_parameters(), *module.named_buffers()]}
    names, handles = [], []
    for name, x in zip(inspect.signature(module.forward).parameters, inputs):
        list_ = flat([x])
        names += [name] if len(list_) == 1 else ["%s_%d" % (name, i) for i in range(len(list_))]
    for name, x in zip(names, flat(inputs)):
        t.bind(t.unique(name), x, "input")

    def entering(name):
        return lambda *_: t.path.append(name)

    def leave(*_):
        t.path.pop()
    for name, m in module.named_modules():
        handles += [m.register_forward_pre_hook(entering(name)), m.register_forward_hook(leave)]
    try:
        with torch.no_grad(), t, NoFastPath():
            result = module(*inputs)
    finally:
        for h in handles:
            h.remove()
    keys = list(result) if isinstance(result, dict) else []
    outputs = flat([result])
    if len(keys) != len(outputs):
        keys = ["output_%d" % i for i in range(len(outputs))] if len(outputs) > 1 else ["output"]
    return t, names, dict(zip(keys, map(t.value, outputs))), outputs


def safetensors(path, tensors):
    header, blobs, end = {}, [], 0
    for name, t in tensors.items():
        blobs.append(t.contiguous().flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b"")
        header[name] = {"dtype": NAMES[t.dtype][1], "shape": list(t.shape), "data_offsets": [end, end + len(blobs[-1])]}
        end += len(blobs[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        f.writelines(blobs)


def write(path, document):
    """Writes a JSON object with a line for each element of its lists, so that errors name useful lines."""
    with open(path, "w") as f:
        parts = []
        for key, v in document.items():
            text = json.dumps(v)
            if isinstance(v, list) and v:
                text = "[\n  %s]" % ",\n  ".join(json.dumps(x) for x in v)
            parts.append(json.dumps(key) + ": " + text)
        f.write("{%s}\n" % ",\n ".join(parts))


def export(module, inputs, path, values=False):
    """Writes a module as the graph file path, with the strides of a run on the tuple of inputs; returns the trace.

    With values, the inputs and outputs of the run are written, too. Raises Missing if graphrun lacks an op.
    """
    before = [x.clone() for x in flat(inputs)] if values else []
    t, input_names, output_names, outputs = trace(module.eval(), inputs)
    if t.missing:
        raise Missing("graphrun has no " + ", no ".join("%s (calls: %d)" % m for m in sorted(t.missing.items())))
    base = os.path.splitext(path)[0]
    needed, nodes = set(output_names.values()), []
    for n in reversed(t.nodes):
        if needed.intersection(n["outputs"]):
            needed.update(x for x in n["inputs"] if isinstance(x, str))
            nodes.append(n)
    def declared(name):
        v = t.strides[name]
        return {"name": name, "dtype": v["dtype"], "shape": v["shape"], "strides": v["strides"], "offset": v["offset"]}
    constants = {name: c for name, c in t.constants.items() if name in needed}
    weights = os.path.basename(base) + ".safetensors"
    document = {"version": 1, "name": os.path.basename(base), "inputs": [declared(name) for name in input_names],
                "constants": [dict(declared(name), file=weights, key=name) for name in constants], "nodes": nodes[::-1],
                "outputs": [{"value": v, "name": k} for k, v in output_names.items()]}
    for n in nodes:
        if n["outputs"] == [n["name"]]:
            del n["outputs"]
        if not n["attrs"]:
            del n["attrs"]
    known = {x for n in nodes for x in n.get("outputs", [n["name"]])} | set(constants) | set(input_names)
    if constants:
        safetensors(base + ".safetensors", constants)
    write(path, document)
    write(base + ".strides.json", {"version": 1, "torch": torch.__version__,
                                   "values": [v for name, v in t.strides.items() if name in known]})
    if values:
        save_npz(base + ".inputs.npz", dict(zip(input_names, before)))
        save_npz(base + ".outputs.npz", dict(zip(output_names, outputs)))
    return t


def load(spec, options):
    """The module that a function makes, and the inputs that it returns with it, or None."""
    where, _, name = spec.partition(":")
    if where.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(where)))
    try:
        found = importlib.import_module(os.path.basename(where)[:-3] if where.endswith(".py") else where)
    except ModuleNotFoundError as e:
        raise SystemExit("from_torch.py: %s: %s" % (spec, e))
    if not callable(getattr(found, name, None)):
        raise SystemExit("from_torch.py: %s has no function %r" % (where, name))
    torch.manual_seed(0)
    made = getattr(found, name)(**options)
    return made if isinstance(made, tuple) else (made, None)


def drawn(shape):
    """A random tensor: 1,3,8,8 is float32, and 2,5:int64 has elements 0 and 1."""
    sizes, _, dtype = shape.partition(":")
    sizes = [int(n) for n in sizes.split(",") if n]
    dtype = {n: d for d, (n, _) in NAMES.items()}[dtype or "float32"]
    floats = dtype.is_floating_point or dtype.is_complex
    return torch.randn(sizes, dtype=dtype) if floats else torch.randint(2, sizes).to(dtype)


def channels_last(module, inputs):
    """Puts the images and volumes among the parameters into channels-last order; returns the inputs in that order."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}

    def moved(t):
        return t.to(memory_format=last[t.dim()]) if isinstance(t, torch.Tensor) and t.dim() in last else t
    for t in [*module.parameters(), *module.buffers()]:
        t.data = moved(t.data)
    return tuple(map(moved, inputs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", metavar="MODULE", help="importable:FUNCTION or path.py:FUNCTION")
    parser.add_argument("-o", metavar="FILE.json", help="the graph file to write")
    parser.add_argument("--shape", action="append", default=[], metavar="1,3,8,8[:int64]", help="shape of an input, "
                        "in order; its elements are random. Without it, the function returns the inputs")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="argument of the function")
    parser.add_argument("--channels-last", action="store_true", help="weights and inputs of 4 and 5 dimensions are "
                        "channels-last")
    parser.add_argument("--values", action="store_true", help="also write FILE.inputs.npz and FILE.outputs.npz, for "
                        "scripts/networks/compare.py")
    parser.add_argument("--list", action="store_true", help="print the aten ops that are called, and graphrun's")
    opts = parser.parse_args()
    if not opts.o and not opts.list:
        parser.error("give -o FILE.json or --list")
    options = {k: ast.literal_eval(v) for k, v in (o.split("=", 1) for o in opts.option)}
    module, inputs = load(opts.module, options)
    inputs = tuple(drawn(s) for s in opts.shape) if opts.shape else inputs
    if inputs is None:
        parser.error("%s returns no inputs: give --shape" % opts.module)
    if opts.channels_last:
        inputs = channels_last(module, inputs)
    if opts.list:
        t = trace(module.eval(), inputs)[0]
        for (aten, op), n in sorted(t.mapped.items()):
            print("%5d  %-45s %s" % (n, aten, op if op in t.ops else "missing"))
        report(t)
        sys.exit(1 if t.missing else 0)
    try:
        report(export(module, inputs, opts.o, opts.values))
    except Missing as e:
        sys.exit("from_torch.py: %s: %s" % (opts.module, e))


def report(t):
    """Prints what in a graph is not a call of aten as eager PyTorch made it."""
    for what, calls in (("decomposed", t.decomposed), ("numbers that are those of this run", t.fixed)):
        if calls:
            print("%s: %s" % (what, ", ".join("%s (%d)" % c for c in sorted(calls.items()))), file=sys.stderr)


def save_npz(path, tensors):
    import numpy  # needed only here
    numpy.savez(path, **{name: t.view(torch.int16).numpy().view("uint16") if t.dtype == torch.bfloat16 else t.numpy()
                         for name, t in tensors.items()})


if __name__ == "__main__":
    main()
