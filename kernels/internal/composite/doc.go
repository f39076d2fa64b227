// Package composite has the ops that are sequences of ops of other families: losses, distances, statistics,
// differences, and products of tensors. A sequence has the roundings of PyTorch's sequence.
package composite
