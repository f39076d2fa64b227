"""Small networks exported by PyTorch, with PyTorch's outputs for several input sizes."""
import io
import os
import sys

import numpy as np
import onnx
import torch

import case

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../networks"))
from export import arrays  # noqa: E402


def add(makers):
    """Adds cases for two input sizes of each network."""
    for name, make in makers.items():
        torch.manual_seed(0)
        net = make()
        for i, args in enumerate(net.inputs[:2]):
            torch.manual_seed(1)
            with torch.no_grad():
                outputs = net.module(*args)
            if i == 0:
                file = io.BytesIO()
                names = list(arrays(args, "x"))
                torch.onnx.export(net.module, args, file, opset_version=net.opset, input_names=names,
                                  output_names=list(arrays(outputs, "y")), dynamic_axes=net.axes or None)
                model = onnx.load_from_string(file.getvalue())
            inputs = {k: np.asarray(v) for k, v in arrays(args, "x").items()}
            case.CASES.append(case.Case("%s.%d" % (name, i), model, inputs, arrays(outputs, "y")))
