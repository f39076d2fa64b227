"""Writes volumes.json: calls of PyTorch 1.13 on made-up operands, and what they give.

Element i of operand k is ((i*37 + k*17 + 11) % 101 - 50) / 25; of integers i*7 % 3.
"""
import json
import torch
import torch.nn.functional as F
import torchvision

torch.manual_seed(0)
cases = []


def operand(k, shape, dtype=torch.float32):
    n = 1
    for s in shape:
        n *= s
    if dtype == torch.int64:
        return torch.tensor([i * 7 % 3 for i in range(n)], dtype=dtype).reshape(shape)
    return torch.tensor([((i * 37 + k * 17 + 11) % 101 - 50) / 25 for i in range(n)], dtype=dtype).reshape(shape)


def case(op, attrs, shapes, f, ints=()):
    ins = [operand(k, s, torch.int64 if k in ints else torch.float32) for k, s in enumerate(shapes)]
    out = f(*ins)
    out = out if isinstance(out, (tuple, list)) else (out,)
    cases.append({
        "op": op, "attrs": attrs, "shapes": shapes, "ints": list(ints),
        "out": [{"shape": list(t.shape), "strides": list(t.stride()),
                 "data": [round(float(x), 6) for x in t.flatten()]} for t in out]})


K = torch._C._nn
case("max_pool3d", {"kernel_size": [2, 3, 2], "stride": [1, 2, 2], "padding": [1, 1, 0], "ceil_mode": True}, [[2, 3, 5, 4]],
     lambda x: torch.max_pool3d(x, [2, 3, 2], [1, 2, 2], [1, 1, 0], 1, True))
case("max_pool3d_with_indices", {"kernel_size": 2, "dilation": 2}, [[1, 2, 4, 5, 6]],
     lambda x: K.max_pool3d_with_indices(x, 2, [], 0, 2))
case("max_pool1d_with_indices", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}, [[2, 8]],
     lambda x: torch.max_pool1d_with_indices(x, 3, 2, 1, 1, True))
for include in (True, False):
    case("avg_pool3d", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": include}, [[2, 4, 5, 6]],
         lambda x: F.avg_pool3d(x, 3, 2, 1, True, include))
case("avg_pool3d", {"kernel_size": 2, "divisor_override": 3}, [[2, 4, 5, 6]], lambda x: F.avg_pool3d(x, 2, divisor_override=3))
case("adaptive_avg_pool3d", {"output_size": [2, 3, 4]}, [[1, 2, 5, 4, 6]], lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)))
case("adaptive_max_pool3d", {"output_size": [2, 3, 4]}, [[1, 2, 5, 4, 6]], lambda x: K.adaptive_max_pool3d(x, (2, 3, 4)))
case("adaptive_max_pool1d", {"output_size": 3}, [[2, 7]], lambda x: torch.adaptive_max_pool1d(x, 3))
case("max_unpool2d", {"output_size": [4, 5]}, [[2, 1, 3], [2, 1, 3]], lambda x, i: K.max_unpool2d(x, i, (4, 5)), ints=[1])
case("lp_pool", {"kernel_size": [2, 2], "stride": [1, 2], "norm_type": 2}, [[1, 2, 5, 4]],
     lambda x: F.lp_pool2d(x, 2, 2, (1, 2)))
case("conv3d", {"stride": [1, 2, 1], "padding": [1, 0, 1], "dilation": [1, 1, 2], "groups": 2}, [[1, 4, 3, 5, 4], [2, 2, 2, 2, 2], [2]],
     lambda x, w, b: F.conv3d(x, w, b, (1, 2, 1), (1, 0, 1), (1, 1, 2), 2))
case("conv_transpose1d", {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2}, [[2, 4, 5], [4, 2, 3], [4]],
     lambda x, w, b: F.conv_transpose1d(x, w, b, 3, 1, 2, 2))
case("conv_transpose2d", {"stride": [2, 1], "padding": [1, 0], "output_padding": [1, 0], "dilation": [1, 2]}, [[3, 4, 3], [3, 2, 3, 2]],
     lambda x, w: F.conv_transpose2d(x, w, None, (2, 1), (1, 0), (1, 0), 1, (1, 2)))
case("conv_transpose3d", {"stride": 2}, [[1, 2, 2, 3, 2], [2, 2, 2, 1, 3], [2]], lambda x, w, b: F.conv_transpose3d(x, w, b, 2))
case("conv1d", {"padding": "same", "dilation": 3}, [[2, 7], [2, 2, 4], [2]], lambda x, w, b: torch.conv1d(x, w, b, 1, "same", 3))
case("conv2d", {"padding": "same", "groups": 2}, [[2, 4, 5, 6], [2, 2, 2, 4], [2]], lambda x, w, b: torch.conv2d(x, w, b, 1, "same", 1, 2))
case("conv2d", {"padding": "same", "dilation": [1, 2]}, [[1, 2, 4, 6], [3, 2, 4, 3]], lambda x, w: torch.conv2d(x, w, None, 1, "same", (1, 2)))
case("conv2d", {"padding": "valid", "stride": 2}, [[1, 2, 4, 6], [3, 2, 2, 3]], lambda x, w: torch.conv2d(x, w, None, 2, "valid"))
case("conv3d", {"padding": "same"}, [[2, 3, 4, 2], [2, 2, 2, 1, 4]], lambda x, w: torch.conv3d(x, w, None, 1, "same"))


def deform(stride, padding, dilation, groups, offset_groups, shapes):
    def run(x, w, offset, *rest):
        mask = rest[0] if rest else torch.zeros((x.shape[0], 0))
        bias = rest[1] if rest else torch.zeros(w.shape[0])
        return torch.ops.torchvision.deform_conv2d(x, w, offset, mask, bias, *stride, *padding, *dilation, groups, offset_groups, bool(rest))
    case("deform_conv2d", {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "offset_groups": offset_groups}, shapes, run)


deform([1, 1], [0, 0], [1, 1], 1, 1, [[2, 2, 4, 5], [3, 2, 3, 2], [2, 12, 2, 4]])
deform([2, 1], [1, 2], [1, 2], 2, 2, [[1, 4, 5, 4], [2, 2, 2, 3], [1, 24, 3, 4], [1, 12, 3, 4], [2]])
deform([1, 1], [1, 1], [1, 1], 1, 3, [[2, 3, 3, 3], [2, 3, 3, 3], [2, 54, 3, 3], [2, 27, 3, 3], [2]])


def cell(op, gates, layers, dirs, biases, first):
    x = [2, 3, 4] if first else [3, 2, 4]
    shapes = [x] + [[layers * dirs, 2, 5]] * (2 if op == "lstm" else 1)
    n = len(shapes)
    for l in range(layers * dirs):
        shapes += [[5 * gates, 4 if l < dirs else 5 * dirs], [5 * gates, 5]] + ([[5 * gates]] * 2 if biases else [])
    attrs = {"has_biases": biases, "num_layers": layers, "bidirectional": dirs == 2, "batch_first": first}

    def run(*t):
        h = (t[1], t[2]) if op == "lstm" else t[1]
        return getattr(torch, op)(t[0], h, list(t[n:]), biases, layers, 0.0, False, dirs == 2, first)
    case(op, attrs, shapes, run)


cell("lstm", 4, 2, 2, True, False)
cell("lstm", 4, 1, 1, False, True)
cell("gru", 3, 2, 2, True, True)
cell("rnn_tanh", 1, 1, 2, True, False)
cell("rnn_relu", 1, 2, 1, False, False)

case("local_response_norm", {"size": 4, "alpha": 0.5}, [[2, 6, 3]], lambda x: F.local_response_norm(x, 4, 0.5))
case("softshrink", {"lambd": 0.3}, [[3, 5]], lambda x: F.softshrink(x, 0.3))
case("prelu", {}, [[2, 3, 2], [3]], F.prelu)
case("glu", {"dim": 0}, [[4, 3]], lambda x: F.glu(x, 0))
case("nll_loss", {"ignore_index": 1}, [[4, 3], [4], [3]], lambda x, t, w: F.nll_loss(x, t, w, ignore_index=1), ints=[1])
case("nll_loss", {"reduction": 0}, [[2, 3, 2, 2], [2, 2, 2]], lambda x, t: F.nll_loss(x, t, reduction="none"), ints=[1])
case("cross_entropy_loss", {"reduction": 2}, [[2, 3, 4], [2, 4], [3]], lambda x, t, w: F.cross_entropy(x, t, w, reduction="sum"), ints=[1])
case("scaled_dot_product_attention", {}, [[2, 3, 4], [2, 5, 4], [2, 5, 3], [3, 5]],
     lambda q, k, v, m: K._scaled_dot_product_attention(q, k, v, m)[0])
case("scaled_dot_product_attention", {"is_causal": True}, [[2, 4, 4], [2, 3, 4], [2, 3, 3]],
     lambda q, k, v: K._scaled_dot_product_attention(q, k, v, None, 0.0, False, True)[0])

with open("volumes.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
