"""Matrix products, convolutions and transposed convolutions, computed by PyTorch in float64."""
import numpy as np
import torch
import torch.nn.functional as F
import torchvision

from case import f, i64, ints, op


def by(fn):
    return lambda *a: fn(*[torch.tensor(x).double() for x in a]).numpy().astype(a[0].dtype)


for shapes in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2))):
    op("MatMul", [f(*s) for s in shapes], by(torch.matmul), 13)
op("MatMul", [f(3, 4).astype(np.float64), f(4, 2).astype(np.float64)], by(torch.matmul), 9)
a, b, c = f(3, 4), f(4, 5), f(5)
op("Gemm", [a, b, c], by(lambda a, b, c: a @ b + c), 13)
op("Gemm", [a, b], by(lambda a, b: a @ b), 11)
op("Gemm", [f(4, 3), f(5, 4), f(3, 1)], by(lambda a, b, c: 0.5 * a.t() @ b.t() + 2 * c), 13, transA=1, transB=1, alpha=0.5, beta=2.0)
op("Gemm", [a, f(5, 4), c], by(F.linear), 13, known=(1, 2), transB=1)
op("Gemm", [a, b, c], by(lambda a, b, c: a @ b + c), 6, broadcast=1)
for eq, shapes in (("ij,jk->ik", ((2, 3), (3, 4))), ("bij,bjk->bik", ((2, 2, 3), (2, 3, 4))), ("...ii->...i", ((2, 3, 3),)),
                   ("i,i", ((3,), (3,))), ("ij->ji", ((2, 3),)), ("bhtd,bhsd->bhts", ((1, 2, 3, 4), (1, 2, 5, 4)))):
    op("Einsum", [f(*s) for s in shapes], by(lambda *v, e=eq: torch.einsum(e, *v)), 12, equation=eq)
op("Det", [f(3, 3)], by(torch.linalg.det), 11)
op("Det", [f(2, 4, 4)], by(torch.linalg.det), 11)

conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
turned = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
for rank, size in ((1, (9,)), (2, (7, 6)), (3, (5, 4, 4))):
    x, w, bias = f(2, 4, *size), f(6, 2, *([3] * rank)), f(6)
    p = [1] * rank
    op("Conv", [x, f(3, 4, *([2] * rank))], by(conv[rank]), 11)
    op("Conv", [x, w, bias], by(lambda x, w, b, r=rank: conv[r](x, w, b, 2, 1, 1, 2)), 11, known=(1, 2), kernel_shape=[3] * rank,
       strides=[2] * rank, pads=p * 2, group=2)
    v = f(4, 3, *([3] * rank))
    op("ConvTranspose", [x, v], by(turned[rank]), 11)
    op("ConvTranspose", [x, v, f(3)], by(lambda x, w, b, r=rank: turned[r](x, w, b, 2, 1, 1)), 11, known=(1, 2),
       strides=[2] * rank, pads=p * 2, output_padding=p)
x, w = f(1, 2, 7, 7), f(3, 2, 3, 3)
op("Conv", [x, w], by(lambda x, w: F.conv2d(F.pad(x, (0, 2, 1, 0)), w)), 11, pads=[1, 0, 0, 2])
op("Conv", [x, w], by(lambda x, w: F.conv2d(x, w, dilation=2, padding=2)), 1, dilations=[2, 2], pads=[2, 2, 2, 2])
op("Conv", [f(1, 2, 6, 5), w], by(lambda x, w: F.conv2d(F.pad(x, (1, 1, 0, 1)), w, stride=2)), 11, auto_pad="SAME_UPPER", strides=[2, 2])
op("Conv", [f(1, 2, 6, 5), w], by(lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 0)), w, stride=2)), 11, auto_pad="SAME_LOWER", strides=[2, 2])
op("Conv", [x, w], by(F.conv2d), 11, auto_pad="VALID")
op("Conv", [f(1, 4, 6, 6), f(4, 1, 3, 3)], by(lambda x, w: F.conv2d(x, w, padding=1, groups=4)), 11, group=4, pads=[1, 1, 1, 1])
v = f(2, 3, 3, 3)
op("ConvTranspose", [f(1, 2, 3, 3), v], by(lambda x, w: F.conv_transpose2d(x, w, stride=2)[:, :, :6, :6]), 11, strides=[2, 2],
   auto_pad="SAME_UPPER")
op("ConvTranspose", [f(1, 2, 3, 3), v], by(lambda x, w: F.pad(F.conv_transpose2d(x, w, stride=(3, 2)), (0, 1, 0, 1))), 11,
   strides=[3, 2], output_padding=[1, 1], name="padded behind")
op("ConvTranspose", [f(1, 2, 3, 3), v], by(lambda x, w: F.pad(F.conv_transpose2d(x, w, stride=(3, 2)), (0, 1, 0, 1))), 11,
   strides=[3, 2], output_shape=[10, 8])
op("DeformConv", [f(1, 2, 5, 5), f(3, 2, 3, 3), f(1, 18, 3, 3, low=-1, high=1)], by(
    lambda x, w, o: torchvision.ops.deform_conv2d(x, o, w)), 19, kernel_shape=[3, 3], pads=[0, 0, 0, 0])
op("DeformConv", [f(1, 2, 5, 5), f(3, 2, 2, 2), f(1, 8, 6, 6, low=-1, high=1), f(3), f(1, 4, 6, 6, low=0, high=1)], by(
    lambda x, w, o, b, m: torchvision.ops.deform_conv2d(x, o, w, b, padding=1, mask=m)), 19, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
op("Col2Im", [f(1, 8, 9), i64(4, 4), i64(2, 2)], by(lambda x, *_: F.fold(x, (4, 4), 2)), 18, known=(1, 2))
op("Col2Im", [f(2, 18, 4), i64(5, 5), i64(3, 3)], by(lambda x, *_: F.fold(x, (5, 5), 3, padding=1, stride=3)), 18, known=(1, 2),
   strides=[3, 3], pads=[1, 1, 1, 1])

for eq, shapes in (("ij->i", ((2, 3),)), ("ij,jk->ik", ((2, 3), (3, 4))), ("ab,bc,c->a", ((2, 3), (3, 4), (4,))), ("i,j->", ((2,), (3,)))):
    for d in (np.int32, np.int8, np.uint8):
        op("Einsum", [ints(*s, low=0 if d == np.uint8 else -9, dtype=d) for s in shapes],
           lambda *v, e=eq: np.einsum(e, *v).astype(v[0].dtype), 12, equation=eq)
