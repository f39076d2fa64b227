// Package graph holds what is computed: nodes that apply ops to values. It has the contract
// of an op ([Op], [Define]), the builder ([New] and the methods named after ops), inference
// ([Graph.Infer]), the verifier ([Verify]), evaluation by the ops' definitions ([Evaluate]) and the
// drawing ([Graph.DOT]).
//
// It knows no file: package graphfile reads and writes them. A reader makes a graph with a [Draft], and
// tells by [Places] where its parts stand; errors of the graph then have these places. It knows no op: those come from a [Lookup], such as kernels.Lookup. The methods named
// after ops, in ops_gen.go, are written by "go generate ./graph" from the catalogue.
package graph
