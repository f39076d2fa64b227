"""Compares operands, attributes and defaults of graphrun's ops with aten's overloads."""
import bind

# Arguments without a meaning in a graph on the CPU.
NOWHERE = {"layout", "device", "pin_memory", "generator", "requires_grad"}

# Arguments that one overload names differently from the others: (op, aten's name) -> graphrun's name.
ALSO = {("split", "split_sizes"): "split_size"}

# Deliberate differences: (op, difference) -> reason. "*" matches every op.
REASONS = {
    ("*", "non_blocking"): "a graph has no streams",
    ("*", "unbiased"): "std and var accept it and correction; its default is True",
    ("bernoulli", "p"): "random ops have a seed, and take probabilities as an operand",
    ("contiguous", "memory_format"): "aten's default 0 is contiguous",
    ("randint", "dtype"): "aten's default 4 is int64",
    ("tril_indices", "dtype"): "aten's default 4 is int64",
    ("triu_indices", "dtype"): "aten's default 4 is int64",
    ("conv1d", "padding"): "aten's overloads in one: a size, or a word",
    ("conv2d", "padding"): "aten's overloads in one: a size, or a word",
    ("conv3d", "padding"): "aten's overloads in one: a size, or a word",
    ("diagonal", "outdim"): "dimensions have no names",
    ("flatten", "out_dim"): "dimensions have no names",
    ("einsum", "path"): "the order of products is the kernel's choice",
    ("gelu", "approximate"): "its default is the string none, which the schema treats as no default",
    ("narrow", "start"): "an attribute may be a value of the graph",
    ("rand_like", "memory_format"): "a node's layout can be pinned",
    ("randn_like", "memory_format"): "a node's layout can be pinned",
    ("repeat_interleave", "output_size"): "avoids a synchronization that graphs do not have",
    ("resize", "size"): "resize is ONNX's; aten's changes storage",
    ("resize", "memory_format"): "resize is ONNX's; aten's changes storage",
    ("sort", "reverse"): "applies to lists, not to tensors",
}


class Op:
    """An op as printed by graphrun schema."""

    def __init__(self, entry):
        p = entry.get("properties", {})
        ins = p.get("inputs", {})
        items = ins.get("prefixItems", [])
        self.operands = [i["description"].split(",")[0] for i in items]
        self.numbers = {n for n, i in zip(self.operands, items) if "number" in str(i)}
        self.variadic = "description" in ins.get("items", {})
        self.attrs = p.get("attrs", {}).get("properties", {})
        self.required = set(p.get("attrs", {}).get("required", []))


def same(ours, theirs):
    if isinstance(ours, list) and not isinstance(theirs, list):
        theirs = [theirs] * len(ours)
    if isinstance(ours, list) and isinstance(theirs, list) and len(set(map(str, ours))) == 1 == len(set(map(str, theirs))):
        return ours[0] == theirs[0]
    if isinstance(theirs, float) and isinstance(ours, (int, float)):
        return abs(ours - theirs) < 1e-12
    return ours == theirs


def faults(name, op):
    """The differences between an op and each of aten's overloads."""
    out = []
    for s in bind.overloads(name):
        for k, a in enumerate(s.arguments):
            kind, tag = str(a.type), "%s%s" % (name, "." + s.overload_name if s.overload_name else "")
            if a.name in NOWHERE:
                continue
            tensor = "Tensor" in kind
            if tensor:
                if not op.variadic and a.name not in op.operands:
                    place = sum("Tensor" in str(b.type) for b in s.arguments[:k])
                    if place >= len(op.operands):
                        out.append((name, a.name, "%s: no operand %s (%s)" % (tag, a.name, kind)))
                continue
            if a.name in op.operands:
                if a.name not in op.numbers and a.name not in op.attrs:
                    out.append((name, a.name, "%s: operand %s takes no number (%s)" % (tag, a.name, kind)))
                continue
            ours = op.attrs.get(ALSO.get((name, a.name), a.name))
            if ours is None:
                out.append((name, a.name, "%s: no attribute %s (%s)" % (tag, a.name, kind)))
                continue
            if a.has_default_value():
                if a.name in op.required:
                    out.append((name, a.name, "%s: %s is required, aten's default is %s" % (tag, a.name, a.default_value)))
                elif "default" in ours and a.default_value is not None and not same(ours["default"], a.default_value):
                    out.append((name, a.name, "%s: default of %s is %s, aten's %s" % (tag, a.name, ours["default"], a.default_value)))
                elif "default" not in ours and a.default_value not in (None, []):
                    out.append((name, a.name, "%s: %s has no default, aten's is %s" % (tag, a.name, a.default_value)))
    return out


def walk(defs):
    """Prints differences without a reason; returns 1 if there are any."""
    bad, seen, none = [], 0, []
    for key in sorted(k for k in defs if k.startswith("op.")):
        name = key[3:]
        schemas = bind.overloads(name)
        if not schemas:
            none.append(name)
            continue
        seen += len(schemas)
        bad += faults(name, Op(defs[key]))
    left = [b for b in bad if (b[0], b[1]) not in REASONS and ("*", b[1]) not in REASONS]
    for _, _, text in left:
        print(text)
    print("%d overloads of %d ops; %d differ, %d more for a reason; not in aten: %s" % (
        seen, len([k for k in defs if k.startswith("op.")]) - len(none), len(left), len(bad) - len(left), " ".join(none)))
    return 1 if left else 0
