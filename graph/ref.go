package graph

// Ref stands in [Attrs] for an attribute that is a value of the graph rather than known
// when the graph is written: a shape that is computed, the k of a topk. In a graph file it
// is {"value": "name"}.
//
// Where the value is a constant the attribute is decoded from it; otherwise the node, and
// all that depends on it, is prepared when the value has been computed, and the graph
// runs in segments.
type Ref struct{ Value *Value }
