package graph

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// WithStorageAsInferred keeps the values of ops that read the storage of their operand ([Facts.ReadsStorage]), such as
// as_strided, when nodes are pinned to layouts. A pin changes the layout of a value, and of the values whose layouts
// inference derives from it. An op that reads storage finds it as inferred without pins: it reads a copy. For example,
// if a is pinned to column-major order, the graph
//
//	a = exp(x)    s = as_strided(a)
//
// becomes
//
//	a = exp(x)    a.storage = clone(a), pinned to row-major order    s = as_strided(a.storage)
//
// The result is an inferred copy of the graph, or the graph itself if it needs no such copies. If no copy has the
// storage that inference without pins gives, the error is a [*PinError].
func (g *Graph) WithStorageAsInferred() (*Graph, error) {
	readsStorage := func(n *Node) bool { return n.Op != nil && n.Op.ReadsStorage }
	setsLayout := func(n *Node) bool { return n.Pin.SetsLayout() }
	if !slices.ContainsFunc(g.Nodes, setsLayout) || !slices.ContainsFunc(g.Nodes, readsStorage) {
		return g, nil
	}
	unpinned, pinned := g.withoutLayoutPins(), g.Clone()
	rejected := unpinned.InferAll()
	restorer := storageRestorer{graph: pinned, counterparts: counterparts(unpinned, pinned)}
	nodes := pinned.Nodes
	pinned.Nodes = make([]*Node, 0, len(nodes))
	for i, n := range nodes {
		if readsStorage(n) && rejected[unpinned.Nodes[i]] == nil {
			if err := restorer.restore(n, unpinned.Nodes[i]); err != nil {
				return nil, g.NodeError(n, err)
			}
		}
		pinned.Nodes = append(pinned.Nodes, n)
	}
	if len(pinned.Nodes) == len(nodes) {
		return g, nil
	}
	return pinned, pinned.Infer()
}

// counterparts returns, for each value of a graph, the value of another clone of the same graph.
func counterparts(from, to *Graph) ByValue[*Value] {
	found := NewByValue[*Value](from)
	add := func(values, others []*Value) {
		for i, v := range values {
			found.Set(v, others[i])
		}
	}
	add(from.Inputs, to.Inputs)
	add(from.Constants, to.Constants)
	for i, n := range from.Nodes {
		add(n.Out, to.Nodes[i].Out)
	}
	return found
}

// storageRestorer is the state of [Graph.WithStorageAsInferred].
type storageRestorer struct {
	graph        *Graph          // the graph with pins
	counterparts ByValue[*Value] // by value of the graph without pins: the value in graph
}

// restore makes node n, which reads storage, read the storage that it has without pins. unpinned is the node in the
// graph without pins.
func (restorer storageRestorer) restore(n, unpinned *Node) error {
	for i, arg := range unpinned.In {
		if arg.Kind != TensorArg || arg.Value.Dynamic || n.In[i].Value.Dynamic || restorer.hasStorage(arg.Value) {
			continue
		}
		v, err := restorer.storageOf(arg.Value, n)
		if err != nil {
			return err
		}
		n.In[i].Value = v
	}
	return nil
}

// hasStorage reports whether the pins leave the layout of a value, and of the values that it is a view of, as it is
// without pins.
func (restorer storageRestorer) hasStorage(unpinned *Value) bool {
	v := restorer.counterparts.At(unpinned)
	isSame := v.Meta.Offset == unpinned.Meta.Offset && v.Meta.SameAddresses(unpinned.Meta)
	if !isSame || unpinned.Alias == nil || v.Alias == nil {
		return isSame && unpinned.Alias == nil && v.Alias == nil
	}
	return restorer.counterparts.At(unpinned.Alias) == v.Alias && restorer.hasStorage(unpinned.Alias)
}

// storageOf returns a value with the elements of v, and with the storage that it has without pins: v itself, a copy, or
// a view of a copy. reader is the node that reads the storage.
func (restorer storageRestorer) storageOf(unpinned *Value, reader *Node) (*Value, error) {
	g, v := restorer.graph, restorer.counterparts.At(unpinned)
	why := fmt.Sprintf("%s reads memory in the layout that %q has without pins", reader.Name, v.Name)
	switch {
	case restorer.hasStorage(unpinned):
		return v, nil
	case unpinned.Alias != nil:
		base, err := restorer.storageOf(unpinned.Alias, reader)
		if err != nil {
			return nil, err
		}
		index := slices.IndexFunc(unpinned.Node.In, func(arg Arg) bool { return arg.Value == unpinned.Alias })
		view, err := g.Again(v.Node, index, base, why)
		if err != nil {
			return nil, err
		}
		g.Nodes = append(g.Nodes, view)
		return view.Out[unpinned.Index], nil
	}
	order, isDense := tensor.OrderOf(unpinned.Meta)
	if !isDense || unpinned.Meta.Offset != 0 {
		name, pin := v.Node.pinBefore()
		return nil, &PinError{Name: name, Pin: pin, Err: fmt.Errorf("%s reads the storage of %q, which is %v without "+
			"pins: no copy can have the same storage", reader.Name, v.Name, unpinned.Meta)}
	}
	copyOp, err := g.CopyOp()
	if err != nil {
		return nil, err
	}
	copied, err := g.Insert(v.Name+".storage", copyOp.Name, []Arg{ArgOf(v)}, nil, why)
	if err != nil {
		return nil, err
	}
	copied.Pin = Pin{Order: order}
	if err := copied.Infer(); err != nil {
		return nil, err
	}
	g.Nodes = append(g.Nodes, copied)
	return copied.Out[0], nil
}
