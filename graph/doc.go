// Package graph holds what is computed: nodes that apply ops to values. It has the contract
// of an op ([Op], [Define]), the graph and its builder ([New], [Graph.Apply]), inference
// ([Graph.Infer]), the verifier ([Verify]), evaluation by the ops' definitions ([Evaluate]) and the
// drawing ([Graph.DOT]).
//
// It knows no op: those come from a [Lookup], such as kernels.Lookup, and the functions of package op
// add them to a graph with types. It knows no file: package graphfile reads and writes them. A reader makes
// a graph with a [Draft], and tells by [Places] where its parts stand; errors of the graph then have these
// places.
package graph
