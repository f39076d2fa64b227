"""Scripted loops and branches, and small recurrent and diffusion networks."""
import miniatures
import speech

miniatures.add({n: speech.NETWORKS[n] for n in ("voice", "greedy", "beams", "labels", "pieces", "diffusion")})
