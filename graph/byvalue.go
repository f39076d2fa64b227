package graph

// ByValue holds something of each value of a graph, as a map from its values would, in a slice by the
// values' numbers: of a large graph passes look up several values for every node. The zero ByValue
// is empty. Values of different graphs must not be mixed, but those of a graph and its [Graph.Clone]
// have the same numbers. It is not safe for concurrent changes.
type ByValue[T any] struct{ of []T }

// NewByValue returns a ByValue with room for the values that a graph has.
func NewByValue[T any](g *Graph) ByValue[T] {
	if g == nil {
		return ByValue[T]{}
	}
	return ByValue[T]{make([]T, g.numbered)}
}

// At returns the T that was set for a value, else the zero T.
func (b *ByValue[T]) At(v *Value) (x T) {
	if v == nil || uint(v.number) >= uint(len(b.of)) {
		return x
	}
	return b.of[v.number]
}

// Set sets what At returns for a value. For nil, and for what stands for a value that was rejected, it
// does nothing.
func (b *ByValue[T]) Set(v *Value, x T) {
	if v == nil || v.number < 0 {
		return
	}
	for int(v.number) >= len(b.of) {
		var none T
		b.of = append(b.of, none)
	}
	b.of[v.number] = x
}

// number gives a value of the graph its number.
func (g *Graph) number(v *Value) {
	v.number = int32(g.numbered)
	g.numbered++
}

// numberNode gives a node of the graph its number.
func (g *Graph) numberNode(n *Node) {
	n.number = int32(g.nodes)
	g.nodes++
}

// Graph returns the graph that the value was made in; it panics for a value that no graph made.
func (v *Value) Graph() *Graph { return v.own() }

// Number returns the value's number in its graph, and in copies of it: values are counted from 0 as they
// are made. It is negative for what stands for a value that was rejected.
func (v *Value) Number() int { return int(v.number) }

// Number returns the node's number in its graph, and in copies and segments of it: nodes are counted from 0
// as they are made.
func (n *Node) Number() int { return int(n.number) }

// rejected reports whether the value stands for one that was not made.
func (v *Value) rejected() bool { return v.number < 0 }
