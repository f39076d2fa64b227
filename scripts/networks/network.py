"""What the makers of networks return."""
import torch


class Network:
    """A module, the sets of inputs that it is run on, and how it is exported.

    axes names the sizes that stay open in the model; inputs are called x0, x1, ... Where exact
    is false the network is not run in float64: it picks among boxes, and picks others then.
    layers marks a quantised network, which layers.py holds to its definition.
    """

    def __init__(self, module, *inputs, axes=None, opset=14, exact=True, layers=False):
        self.module = module if isinstance(module, torch.jit.ScriptModule) else module.eval()
        self.inputs, self.axes, self.opset, self.exact = inputs, axes or {}, opset, exact
        self.name, self.layers = "", layers


def settle(module, *batches):
    """Takes batch-norm statistics from a few runs, so that activations stay in range."""
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    module.eval()
    for m in norms:
        m.momentum = None
        m.train()
    with torch.no_grad():
        for b in batches if norms else ():
            module(b)
    for p in module.parameters():  # heads that start at zero
        if p.dim() > 1 and not p.any():
            torch.nn.init.normal_(p, 0, 0.02)
    return module.eval()
