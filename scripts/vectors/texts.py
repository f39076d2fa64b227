"""Small transformers."""
import torch

import miniatures
import language
from network import Network


def llama():
    net = language.llama()
    torch.manual_seed(0)
    net.module = language.Llama(width=24, heads=3, groups=1, layers=1, vocab=29).eval()

    def inputs(n, t, past):
        return language.ids(n, t, vocab=29), torch.randn(1, n, 1, past, 8), torch.randn(1, n, 1, past, 8)
    net.inputs = [inputs(1, 4, 3), inputs(2, 1, 6)]
    return net


def gpt():
    return Network(language.GPT(width=16, heads=2, length=16, vocab=29), (language.ids(1, 9, vocab=29),),
                   (language.ids(3, 5, vocab=29),), axes=language.TEXT)


makers = {"llama": llama, "gpt": gpt}
makers.update({n: language.NETWORKS[n] for n in ("t5", "alibi", "experts", "updates", "windows")})
miniatures.add(makers)
