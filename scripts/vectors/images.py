"""Images and boxes: resizing, sampling, regions, suppression."""
import numpy as np
import torch
import torch.nn.functional as F
import torchvision

from case import f, i64, op, scalar


def t(x):
    return torch.tensor(x).double()


def by(fn):
    return lambda *a: fn(*[t(x) for x in a]).numpy().astype(np.float32)


x = f(1, 2, 4, 5)
double, half = np.array([1, 1, 2, 3], np.float32), np.array([1, 1, 0.5, 0.6], np.float32)
none = np.zeros(0, np.float32)
for known in ((), (2,)):
    op("Resize", [x, None, double], by(lambda x, s: F.interpolate(x, scale_factor=(2, 3))), 13, known=known,
       coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    op("Resize", [x, None, double], by(lambda x, s: F.interpolate(x, scale_factor=(2, 3), mode="bilinear")), 13, known=known, mode="linear")
    op("Resize", [x, None, double], by(lambda x, s: F.interpolate(x, scale_factor=(2, 3), mode="bicubic")), 11, known=known,
       mode="cubic", cubic_coeff_a=-0.75)
for known in ((), (3,)):
    op("Resize", [x, None, None, i64(1, 2, 7, 3)], by(lambda x, s: F.interpolate(x, (7, 3), mode="bilinear", align_corners=True)), 13,
       known=known, mode="linear", coordinate_transformation_mode="align_corners")
    op("Resize", [x, None, None, i64(1, 2, 8, 10)], by(lambda x, s: F.interpolate(x, (8, 10), mode="nearest-exact")), 13, known=known,
       nearest_mode="round_prefer_ceil")
op("Resize", [x, np.array([1, 1, 2, 2], np.float32)], by(lambda x, s: F.interpolate(x, scale_factor=2)), 10, known=(1,))
op("Resize", [f(1, 1, 6), None, None, i64(1, 1, 9)], by(lambda x, s: F.interpolate(x, 9, mode="linear")), 13, known=(3,), mode="linear",
   coordinate_transformation_mode="pytorch_half_pixel")
op("Resize", [x, None, None, i64(2, 3)], by(lambda x, s: F.interpolate(x, (2, 3), mode="bilinear", antialias=True)), 18, known=(3,),
   mode="linear", antialias=1, exclude_outside=1, axes=[2, 3], name="antialias")
op("Upsample", [x, double], by(lambda x, s: F.interpolate(x, scale_factor=(2, 3))), 9, known=(1,))
op("Upsample", [x], by(lambda x: F.interpolate(x, scale_factor=(2, 3))), 7, scales=[1.0, 1.0, 2.0, 3.0])
op("Upsample", [x], by(lambda x: F.interpolate(x, scale_factor=2)), 1, height_scale=2.0, width_scale=2.0)

grid = f(1, 3, 4, 2, low=-1.2, high=1.2)
for mode, ours in (("bilinear", "bilinear"), ("nearest", "nearest"), ("bicubic", "bicubic")):
    for padding in ("zeros", "border", "reflection"):
        for corners in (0, 1):
            op("GridSample", [x, grid], by(lambda x, g, m=ours, p=padding, c=corners: F.grid_sample(x, g, m, p, bool(c))), 16, mode=mode,
               padding_mode=padding, align_corners=corners)
op("GridSample", [x, grid], by(lambda x, g: F.grid_sample(x, g, align_corners=False)), 20, mode="linear")
op("GridSample", [f(1, 1, 3, 4, 2), f(1, 2, 2, 2, 3, low=-1, high=1)], by(lambda x, g: F.grid_sample(x, g, align_corners=True)), 20,
   mode="linear", align_corners=1)
for corners in (0, 1):
    op("AffineGrid", [f(2, 2, 3), i64(2, 1, 3, 4)], by(lambda m, s, c=corners: F.affine_grid(m, (2, 1, 3, 4), bool(c))), 20, known=(1,),
       align_corners=corners)
op("AffineGrid", [f(1, 3, 4), i64(1, 1, 2, 3, 2)], by(lambda m, s: F.affine_grid(m, (1, 1, 2, 3, 2), False)), 20)

images, rois, batch = f(2, 2, 8, 8), np.array([[0, 0, 5, 5], [1, 2, 7, 6], [3, 3, 4, 7]], np.float32), i64(0, 1, 1)


def align(x, r, b, **k):
    boxes = torch.cat([t(b)[:, None], t(r)], 1)
    return torchvision.ops.roi_align(t(x), boxes, 2, **k).numpy().astype(np.float32)


op("RoiAlign", [images, rois, batch], lambda x, r, b: align(x, r, b, sampling_ratio=2), 10, output_height=2, output_width=2, sampling_ratio=2)
op("RoiAlign", [images, rois, batch], lambda x, r, b: align(x, r, b, sampling_ratio=2, spatial_scale=0.5, aligned=True), 16,
   output_height=2, output_width=2, sampling_ratio=2, spatial_scale=0.5)
op("RoiAlign", [images, rois, batch], lambda x, r, b: align(x, r, b, sampling_ratio=3), 16, output_height=2, output_width=2, sampling_ratio=3,
   coordinate_transformation_mode="output_half_pixel")

boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]], np.float32)
scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]], np.float32)
centred = np.concatenate([boxes[..., [1, 0]] + 0.5, np.ones((1, 6, 2), np.float32)], 2)
kept = i64(0, 0, 3, 0, 0, 0, 0, 0, 5).reshape(3, 3)
for known in ((), (2, 3, 4)):
    limits = [scalar(3), scalar(0.5, np.float32), scalar(0.0, np.float32)]
    op("NonMaxSuppression", [boxes, scores] + limits, kept, 11, known=known)
    op("NonMaxSuppression", [centred, scores] + limits, kept, 10, known=known, center_point_box=1)
    limits = [i64(2), np.array([0.5], np.float32), np.array([0.92], np.float32)]
    op("NonMaxSuppression", [boxes, scores] + limits, kept[:1], 11, known=known)
op("ImageScaler", [x], lambda v: 2 * v + np.array([0.5, -1], np.float32).reshape(2, 1, 1), 6, scale=2.0, bias=[0.5, -1.0])
