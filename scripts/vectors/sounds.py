"""Scripted loops and branches, recurrent nets and diffusion in miniature."""
import miniatures
import speech

miniatures.add({n: speech.NETWORKS[n] for n in ("voice", "greedy", "beams", "labels", "pieces", "diffusion")})
