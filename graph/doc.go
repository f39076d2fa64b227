// Package graph holds what is computed: nodes that apply ops to values. It has the contract
// of an op ([Op]), the builder ([New] and the methods named after ops), the graph file
// ([Load], [Graph.Save]), inference ([Graph.Infer]), the verifier ([Verify]) and the
// drawing ([Graph.DOT]).
//
// It knows no op: those come from a [Lookup], such as kernels.Lookup. The methods named
// after ops, in ops_gen.go, are written by "go generate ./graph" from the catalogue.
package graph
