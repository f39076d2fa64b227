"""Python functions with the operands, attributes and order of ops whose results are not those of one of aten's ops."""
import torch
import torch.nn.functional as F
import torchvision  # noqa: F401  registers torch.ops.torchvision

REDUCTIONS = ("none", "mean", "sum")


def copy(x, src, non_blocking=False):
    """aten::copy of PyTorch 2, which keeps the strides of x."""
    shares = any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride()))
    result = torch.empty_like(x) if shares else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    return result.copy_(src)


def embedding_bag(weight, indices, offsets=None, per_sample_weights=None, mode=0, **attrs):
    return F.embedding_bag(indices, weight, offsets, mode=("sum", "mean", "max")[mode], per_sample_weights=per_sample_weights, **attrs)


def gaussian_nll_loss(x, target, var, reduction=1, **attrs):
    return F.gaussian_nll_loss(x, target, var, reduction=REDUCTIONS[reduction], **attrs)


def multilabel_soft_margin_loss(x, target, weight=None, reduction=1):
    return F.multilabel_soft_margin_loss(x, target, weight, reduction=REDUCTIONS[reduction])


def max_unpool1d(x, indices, output_size):
    """torch.nn.functional's without the output size that it computes from the window."""
    return torch.ops.aten.max_unpool2d(x.unsqueeze(-1), indices.unsqueeze(-1), list(output_size) + [1]).squeeze(-1)


def scaled_dot_product_attention(*operands, **attrs):
    return torch._C._nn._scaled_dot_product_attention(*operands, **attrs)[0]


def roi_align(x, rois, spatial_scale=1.0, pooled_height=1, pooled_width=1, sampling_ratio=0, aligned=False):
    return torch.ops.torchvision.roi_align(x, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)


def nms(boxes, scores, iou_threshold):
    return torch.ops.torchvision.nms(boxes, scores, iou_threshold)


def pair(v):
    return [v, v] if isinstance(v, int) else list(v)


def deform_conv2d(x, weight, offset, mask=None, bias=None, stride=1, padding=0, dilation=1, groups=1, offset_groups=1):
    """torchvision's function, which computes groups and offset_groups from the shapes."""
    use = mask is not None
    mask = mask if use else torch.zeros((x.shape[0], 1), dtype=x.dtype)
    bias = bias if bias is not None else torch.zeros(weight.shape[0], dtype=x.dtype)
    return torch.ops.torchvision.deform_conv2d(x, weight, offset, mask, bias, *pair(stride), *pair(padding), *pair(dilation), groups,
                                               offset_groups, use)


FUNCTIONS = {f.__name__: f for f in (copy, embedding_bag, gaussian_nll_loss, multilabel_soft_margin_loss, max_unpool1d,
                                     scaled_dot_product_attention, roi_align, nms, deform_conv2d)}
