"""Finds the overload of an aten op that accepts a node's operands and attributes."""
import torch

from draw import DTYPES, FORMATS
from functions import FUNCTIONS


SCALARS = ("number", "Scalar", "Optional[number]", "Optional[Scalar]")


def overloads(name):
    """The schemas of aten's op that graphs can express: without out=, in-place, and named dimensions."""
    out = []
    for s in torch._C._jit_get_schemas_for_operator("aten::" + name):
        types = [str(a.type) for a in s.arguments]
        if any(a.is_out for a in s.arguments) or "out" in s.overload_name.split("_"):
            continue
        if any("str" in t and a.name in ("dim", "dims", "self", "names") for a, t in zip(s.arguments, types)):
            continue
        if any(t in ("t", "t[]") or t.startswith(("List[t]", "Dict", "List[str]")) for t in types) or "Tensor" not in str(s):
            continue
        if types and types[0] in ("int", "float", "number", "complex", "str", "bool") and "Tensor" not in types:
            if len(s.returns) == 1 and str(s.returns[0].type) != "Tensor":
                continue
        out.append(s)
    return out


def fits(kind, v):
    """Whether a plain value is valid for an argument of the given type."""
    if kind.startswith("Optional["):
        return v is None or fits(kind[9:-1], v)
    number = isinstance(v, (int, float, complex)) and not isinstance(v, bool)
    integer = isinstance(v, int) and not isinstance(v, bool)
    if kind in ("number", "Scalar"):
        return number or isinstance(v, bool)
    if kind.startswith("List[int]") or kind.startswith("List[SymInt]"):
        return isinstance(v, (list, tuple)) and all(isinstance(x, int) for x in v)
    if kind in ("List[number]", "List[Scalar]"):
        return isinstance(v, (list, tuple)) and all(fits("number", x) for x in v)
    if kind.startswith("List[float]"):
        return isinstance(v, (list, tuple)) and all(isinstance(x, float) for x in v)
    return {"int": integer, "SymInt": integer, "float": number, "bool": isinstance(v, bool),
            "str": isinstance(v, str), "Device": False}.get(kind, False)


def special(a, v):
    """Converts values that JSON represents differently."""
    if a.name == "dtype" and isinstance(v, str):
        return DTYPES[v]
    if a.name == "memory_format" and isinstance(v, str):
        return FORMATS[v]
    return None


def special_value(name, v):
    """Converts the value of a Python function's argument."""
    return DTYPES[v] if name == "dtype" and isinstance(v, str) else v


def bind(s, op, operands, attrs):
    """The arguments of the overload by name, or None if it does not accept the call."""
    rest, left, args = list(operands), dict(attrs), {}
    for a in s.arguments:
        kind = str(a.type)
        tensor = "Tensor" in kind
        if a.name in left:
            v = left.pop(a.name)
            v = special(a, v) or v
            if isinstance(v, (torch.dtype, torch.memory_format)):
                args[a.name] = v
                continue
            if "List[int]" in kind or "List[SymInt]" in kind:
                if isinstance(v, int) and not isinstance(v, bool) and (a.N or 0) > 0:
                    v = [v] * a.N
            if not fits(kind, v):
                return None
            args[a.name] = v
        elif "List[" in kind and tensor:
            n = {"lstm": 2, "index_put": len(rest) - 1}.get(op, len(rest)) if a.name in ("hx", "indices") else len(rest)
            args[a.name], rest = rest[:n], rest[n:]
            if any(not isinstance(x, torch.Tensor) and not (x is None and "Optional" in kind) for x in args[a.name]):
                return None
        elif tensor:
            v = rest.pop(0) if rest else None
            if not isinstance(v, torch.Tensor) and not (v is None and "Optional" in kind):
                return None
            args[a.name] = v
        elif rest and kind in ("number", "Scalar", "float") and not isinstance(rest[0], torch.Tensor) and rest[0] is not None:
            args[a.name] = rest.pop(0)
        elif not a.has_default_value():
            if not kind.startswith("Optional["):
                return None
            args[a.name] = None
        elif not a.kwarg_only:
            args[a.name] = a.default_value
    return None if rest or left else args


def find(op, operands, attrs):
    """The overload to call, its positional arguments and its keyword arguments, or None."""
    if op in FUNCTIONS:
        return FUNCTIONS[op], operands, {k: special_value(k, v) for k, v in attrs.items() if v is not None}
    candidates = overloads(op)
    if op == "index_put":                           # its values are before the indices
        operands = operands[:1] + operands[2:] + operands[1:2]
    if not candidates:                              # a Python function
        f = getattr(torch.nn.functional, op, None)
        return None if f is None else (f, operands, {k: special_value(k, v) for k, v in attrs.items() if v is not None})
    for s in candidates:
        args = bind(s, op, operands, attrs)
        if args is not None:
            packet = getattr(torch.ops.aten, op)
            first = [args.pop(a.name) for a in s.arguments if not a.kwarg_only and a.name in args]
            f = getattr(packet, s.overload_name or "default")
            if any(isinstance(v, bool) and str(a.type) in SCALARS for a, v in zip(s.arguments, first)) or any(
                    isinstance(v, bool) and k in ("alpha", "value", "fill_value") for k, v in args.items()):
                f = getattr(torch, op, f)            # torch.ops converts a bool among numbers to an integer
            return f, first, args
    return None
