// Package composite has the ops that are sequences of ops of other packages: losses, distances, statistics,
// differences, and products of tensors. A sequence has the roundings of PyTorch's sequence.
//
// Each op is defined by a function of its operands (define in steps.go), from which package compose derives inference,
// reference and decomposition. Such an op has no kernel: the nodes of its decomposition are planned and fused as if the
// user had written them.
package composite
