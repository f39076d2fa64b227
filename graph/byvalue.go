package graph

// ByValue maps the values of a graph to elements of type T. It is a slice indexed by the numbers of the
// values ([Value.Number]). A slice is faster than a map, and passes look up several values for every node.
// The zero ByValue is empty. All values must belong to one graph or to its clones, which number their
// values alike. A ByValue is not safe for concurrent changes.
type ByValue[T any] struct{ elements []T }

// NewByValue returns an empty ByValue with memory for all values of a graph.
func NewByValue[T any](g *Graph) ByValue[T] {
	if g == nil {
		return ByValue[T]{}
	}
	return ByValue[T]{make([]T, g.valueCount)}
}

// At returns the element that was set for a value, or the zero T if none was set.
func (b *ByValue[T]) At(v *Value) (x T) {
	if v == nil || uint(v.number) >= uint(len(b.elements)) {
		return x
	}
	return b.elements[v.number]
}

// Set sets the element of a value. It does nothing for nil and for the placeholder of a rejected value.
//
//go:noinline
func (b *ByValue[T]) Set(v *Value, x T) {
	if v == nil || v.number < 0 {
		return
	}
	for int(v.number) >= len(b.elements) {
		var none T
		b.elements = append(b.elements, none)
	}
	b.elements[v.number] = x
}

// assignNumber assigns the next free number to a value of the graph.
func (g *Graph) assignNumber(v *Value) {
	v.number = int32(g.valueCount)
	g.valueCount++
}

// assignNodeNumber assigns the next free number to a node of the graph.
func (g *Graph) assignNodeNumber(n *Node) {
	n.number = int32(g.nodeCount)
	g.nodeCount++
}

// Graph returns the graph in which the value was made. It panics for a value that was not made by a graph.
func (v *Value) Graph() *Graph { return v.ownerGraph() }

// Number returns the value's number in its graph and in copies of it. Values are numbered from 0 in the order in which
// they are made. The placeholder of a rejected value has a negative number.
func (v *Value) Number() int { return int(v.number) }

// Number returns the node's number in its graph and in copies and segments of it. Nodes are numbered from 0 in the
// order in which they are made.
func (n *Node) Number() int { return int(n.number) }

// rejected reports whether the value is the placeholder of a rejected value.
func (v *Value) rejected() bool { return v.number < 0 }
