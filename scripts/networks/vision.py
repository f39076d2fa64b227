"""Torchvision's networks for segmentation, detection, video and optical flow, and quantized networks."""
import functools

import torch
import torchvision
from torch import nn

from network import Network, settle

models = torchvision.models


def segmentation(name):
    module = getattr(models.segmentation, name)(weights=None, weights_backbone=None)
    settle(module, torch.randn(2, 3, 96, 96), torch.randn(2, 3, 96, 96))
    sizes = [(1, 3, 96, 96), (2, 3, 64, 128)]
    return Network(module, *[(torch.randn(*s),) for s in sizes], axes={"x0": {0: "N", 2: "H", 3: "W"}}, opset=13)


def detection(name, size, exact=False, **options):
    """A detector with thresholds that keep some boxes despite random weights. exact is set for networks
    that select the same boxes in float64."""
    module = getattr(models.detection, name)(weights=None, weights_backbone=None, **options)
    settle(module, *[[torch.rand(3, size, size) for _ in range(2)] for _ in range(2)])
    return Network(module, ([torch.rand(3, size, size)],), ([torch.rand(3, size, size)],), opset=11, exact=exact)


def video(name):
    module = settle(getattr(models.video, name)(weights=None), torch.randn(2, 3, 8, 56, 56))
    return Network(module, (torch.randn(1, 3, 8, 56, 56),), (torch.randn(2, 3, 4, 64, 48),),
                   axes={"x0": {0: "N", 2: "T", 3: "H", 4: "W"}})


def mvit():
    return Network(models.video.mvit_v1_b(weights=None), (torch.randn(1, 3, 16, 224, 224),))


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = models.optical_flow.raft_small(weights=None)

    def forward(self, a, b):
        return self.net(a, b, num_flow_updates=3)[-1]


def flow():
    return Network(settle(Flow()), (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)), opset=16)


class Quantized(nn.Module):
    """Convolutions and linear layers between fake-quantized values, which are exported as QDQ pairs."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, groups=2), nn.Linear(16, 10)

    def layer(self, m, x):
        scale = m.weight.detach().abs().amax(list(range(1, m.weight.dim()))) / 127
        w = torch.fake_quantize_per_channel_affine(m.weight, scale, torch.zeros_like(scale, dtype=torch.int32), 0, -128, 127)
        x = torch.fake_quantize_per_tensor_affine(x, 0.04, 128, 0, 255)
        if isinstance(m, nn.Linear):
            return nn.functional.linear(x, w, m.bias)
        return nn.functional.conv2d(x, w, m.bias, m.stride, m.padding, m.dilation, m.groups)

    def forward(self, x):
        x = torch.relu(self.layer(self.a, x))
        x = torch.relu(self.layer(self.b, x))
        return self.layer(self.c, x.mean((2, 3)))


def quantized():
    return Network(Quantized(), (torch.randn(1, 3, 16, 16),), (torch.randn(4, 3, 16, 16),), axes={"x0": {0: "N"}},
                   opset=13, exact=False)


def integers(name):
    """Quantizes after training, with activations that use the full range of their quantization."""
    torch.backends.quantized.engine = "qnnpack"
    module = getattr(models.quantization, name)(weights=None, quantize=False).eval()
    settle(module, torch.randn(2, 3, 64, 64), torch.randn(2, 3, 64, 64))
    module.fuse_model(is_qat=False)
    module.qconfig = torch.ao.quantization.get_default_qconfig("qnnpack")
    torch.ao.quantization.prepare(module, inplace=True)
    module(torch.randn(2, 3, 64, 64))
    torch.ao.quantization.convert(module, inplace=True)
    return Network(module, (torch.randn(1, 3, 64, 64),), opset=13, exact=False, layers=True)


NETWORKS = {n: functools.partial(segmentation, n)
            for n in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")}
NETWORKS.update({n: functools.partial(video, n) for n in ("r3d_18", "mc3_18", "r2plus1d_18")})
NETWORKS.update({n: functools.partial(detection, n, size, **options) for n, size, options in (
    ("ssdlite320_mobilenet_v3_large", 320, {"score_thresh": 0.012, "detections_per_img": 50}),
    ("ssd300_vgg16", 300, {"score_thresh": 0.012, "detections_per_img": 20}),
    ("fasterrcnn_mobilenet_v3_large_320_fpn", 320, {"box_score_thresh": 0.008, "box_detections_per_img": 20}),
    ("retinanet_resnet50_fpn", 160,
     {"score_thresh": 0.005, "min_size": 160, "max_size": 160, "detections_per_img": 20}),
    ("fcos_resnet50_fpn", 160, {"score_thresh": 0.05, "min_size": 160, "max_size": 160, "detections_per_img": 20}),
    ("maskrcnn_resnet50_fpn", 160,
     # Masks are sampled at the positions of the boxes, which float32 computes with an error of a thousandth of a
     # pixel. PyTorch's masks differ from float64 by 2.6e-4 of the largest magnitude, so that another float32
     # implementation may differ from them by more than 3e-4.
     {"exact": True, "box_score_thresh": 0.008, "min_size": 160, "max_size": 160, "box_detections_per_img": 8}),
    ("keypointrcnn_resnet50_fpn", 160, {"box_score_thresh": 0.008, "min_size": 160, "max_size": 160,
                                        "box_detections_per_img": 4, "num_keypoints": 5}))})
NETWORKS.update({n + "_integers": functools.partial(integers, n) for n in ("resnet18", "mobilenet_v2")})
NETWORKS.update({"mvit_v1_b": mvit, "raft_small": flow, "quantized": quantized})
