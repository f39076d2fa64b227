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

// At returns what was set for a value, else the zero T.
func (b *ByValue[T]) At(v *Value) (x T) {
	if v == nil || int(v.number) >= len(b.of) {
		return x
	}
	return b.of[v.number]
}

// Set sets what At returns for a value. For nil it does nothing.
func (b *ByValue[T]) Set(v *Value, x T) {
	if v == nil {
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
