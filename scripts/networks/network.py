"""The description of a network to export."""
import torch


class Network:
    """A module, its sets of inputs, and the parameters of its export.

    axes names the sizes that are symbolic in the model; inputs are called x0, x1, ... If exact is false, the network
    is not run in float64, because it would select other boxes then. layers marks a quantized network, which layers.py
    compares layer by layer.
    """

    def __init__(self, module, *inputs, axes=None, opset=14, exact=True, layers=False):
        self.module = module if isinstance(module, torch.jit.ScriptModule) else module.eval()
        self.inputs, self.axes, self.opset, self.exact = inputs, axes or {}, opset, exact
        self.name, self.layers = "", layers


def settle(module, *batches):
    """Computes batch-norm statistics in a few runs, so that activations stay in range."""
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    module.eval()
    for m in norms:
        m.momentum = None
        m.train()
    with torch.no_grad():
        for b in batches if norms else ():
            module(b)
    for p in module.parameters():  # heads that are initialized with zero
        if p.dim() > 1 and not p.any():
            torch.nn.init.normal_(p, 0, 0.02)
    return module.eval()
