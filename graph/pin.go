package graph

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// Pin is a user's demand on a value or a node. A pin can demand a layout, given by a memory format or an order of
// dimensions. For a node it can also demand the implementation and the device. The zero Pin demands nothing. For
// example, this pin of a convolution demands channels-last results, computed by the implementation "nhwc":
//
//	Pin{Format: tensor.ChannelsLast, Impl: "nhwc"}
type Pin struct {
	Format tensor.MemoryFormat
	Order  tensor.Order
	Impl   string
	Device string // [HostDevice] or the name of a device
}

// HostDevice is the name of the host in pins.
const HostDevice = "cpu"

// ParsePin reads a pin in the syntax of the command line: a memory format, "order:0,2,3,1", "impl:nhwc", or
// "device:cpu".
func ParsePin(text string) (Pin, error) {
	if list, ok := strings.CutPrefix(text, "order:"); ok {
		order, err := tensor.ParseOrder(list)
		if err == nil && order == "" {
			err = errors.New("order: want dimensions from the slowest to the fastest, such as order:0,2,3,1")
		}
		return Pin{Order: order}, err
	}
	if name, ok := strings.CutPrefix(text, "impl:"); ok {
		if name == "" {
			return Pin{}, errors.New("impl: want the name of an implementation, such as impl:nhwc")
		}
		return Pin{Impl: name}, nil
	}
	if name, ok := strings.CutPrefix(text, "device:"); ok {
		if name == "" {
			return Pin{}, errors.New("device: want the name of a device, such as device:cpu")
		}
		return Pin{Device: name}, nil
	}
	f, err := tensor.ParseMemoryFormat(text)
	if err != nil || f == tensor.Preserve {
		return Pin{}, fmt.Errorf("%q is not a pin: want contiguous, channels_last, "+
			"channels_last_3d, order:0,2,3,1, impl:NAME or device:NAME%s", text,
			suggest.DidYouMean(suggest.Nearest(text, slices.Values(layoutNames))))
	}
	return Pin{Format: f}, nil
}

// layoutNames are the names of the memory formats that a pin can demand.
var layoutNames = []string{tensor.Contiguous.String(), tensor.ChannelsLast.String(), tensor.ChannelsLast3d.String()}

// String returns the pin's layout as [ParsePin] reads it, the name of the implementation, and the device.
func (p Pin) String() string {
	var parts []string
	switch {
	case p.Format != tensor.NoFormat:
		parts = append(parts, p.Format.String())
	case p.Order != "":
		parts = append(parts, "order:"+dimsText(p.Order))
	}
	if p.Impl != "" {
		parts = append(parts, "impl:"+p.Impl)
	}
	if p.Device != "" {
		parts = append(parts, "device:"+p.Device)
	}
	return strings.Join(parts, ", ")
}

// dimsText formats an order as "0,2,3,1", even if it has a name.
func dimsText(order tensor.Order) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(order.Dims()), "[]"), " ", ",")
}

// SetsLayout reports whether the pin demands a layout.
func (p Pin) SetsLayout() bool { return p.Format != tensor.NoFormat || p.Order != "" }

// OrderFor returns the order that the pin demands for values of the given rank. It fails if the order or the format has
// another rank.
func (p Pin) OrderFor(rank int) (tensor.Order, error) {
	switch {
	case p.Order == "":
		return p.Format.Order(rank)
	case p.Order.Rank() != rank:
		return "", fmt.Errorf("order %s has %d dimensions, but the value has %d", dimsText(p.Order), p.Order.Rank(), rank)
	}
	return p.Order, nil
}

// Matches reports whether a value has the layout that the pin demands. A value without elements always has the layout.
func (p Pin) Matches(meta tensor.Meta) bool {
	if !p.SetsLayout() {
		return true
	}
	order, err := p.OrderFor(meta.Rank())
	return err == nil && (meta.Numel() == 0 || order.Matches(meta))
}

// Apply returns meta in the layout that the pin demands. It returns meta unchanged if meta already has this layout.
func (p Pin) Apply(meta tensor.Meta) (tensor.Meta, error) {
	if p.Matches(meta) {
		return meta, nil
	}
	order, err := p.OrderFor(meta.Rank())
	if err != nil {
		return meta, err
	}
	return meta.WithStrides(order.Strides(meta.Shape)), nil
}

// check returns an error for a pin that no value can meet.
func (p Pin) check() error {
	if p.Format == tensor.Preserve || !p.Format.Valid() {
		return fmt.Errorf("a pin cannot demand the memory format %v", p.Format)
	}
	if p.Format != tensor.NoFormat && p.Order != "" {
		return errors.New("a pin cannot demand both a memory format and an order")
	}
	_, err := tensor.NewOrder(p.Order.Dims()...)
	return err
}

// add adds the demands of another pin. Demands of the other pin replace earlier demands of the same kind.
func (p *Pin) add(other Pin) {
	if other.SetsLayout() {
		p.Format, p.Order = other.Format, other.Order
	}
	if other.Impl != "" {
		p.Impl = other.Impl
	}
	if other.Device != "" {
		p.Device = other.Device
	}
}

// Pin adds a demand on the value, node or output with the given name. If an input or a constant is pinned to a
// layout, all nodes must read it in this layout. Pin infers a pinned node again. The caller must then call
// [Graph.Infer], because other nodes may depend on the pinned node.
//
// The name may also be that of a step of several nodes as reports show it: the name of the step, the names of its nodes
// joined by "+", or one of these with an ellipsis in place of a part, as in "layer1.…conv2", or without its end, as in
// "/layer1/conv2" for the only node in this path. A layout is then that of the last node. An implementation is that of the node that has an implementation of this name: of the named nodes or,
// if the pin names a single node, of those whose results it reads through pointwise nodes. If there are several, Pin
// fails and names them.
func (g *Graph) Pin(name string, p Pin) error {
	index := g.nameIndex()
	v, n := index.values[name], index.node(name)
	switch {
	case v != nil && v.Node != nil: // for a result, pin the node
		n = v.Node
	case v == nil && n == nil: // the name may be the name of an output
		if output := g.output(name); output != nil {
			return output.pin(p)
		}
		return g.pinShown(name, p)
	}
	if n == nil {
		return v.pinSource(p)
	}
	if p.Impl != "" && !n.hasImpl(p.Impl) {
		if candidates := n.continued(p.Impl); len(candidates) > 0 {
			return pinOne(name, p, candidates)
		}
	}
	return n.pin(p)
}

// ellipsis replaces a part of a name in tables.
const ellipsis = "\u2026"

// pinShown is [Graph.Pin] for a name that no value, node or output has, but that reports may show.
func (g *Graph) pinShown(name string, p Pin) error {
	index := g.nameIndex()
	if full, err := g.unshortened(name); err != nil {
		return err
	} else if full != name {
		return g.Pin(full, p)
	}
	var nodes []*Node // of the step
	if parts := strings.Split(name, "+"); len(parts) > 1 {
		for _, part := range parts {
			full, err := g.unshortened(part)
			if err != nil {
				return err
			}
			n := index.node(full)
			if v := index.values[full]; v != nil && v.Node != nil {
				n = v.Node
			}
			if n == nil {
				nodes = nil
				break
			}
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		hint := ""
		if similar := suggest.Nearest(name, slices.Values(sorted.Keys(index.values))); similar != "" {
			hint = fmt.Sprintf("; did you mean %q?", similar)
		}
		return fmt.Errorf("there is no value or node %q%s", name, hint)
	}
	switch {
	case p.Device != "":
		return fmt.Errorf("%q is a step of %d nodes: name the node to be pinned to a device", name, len(nodes))
	case p.Impl == "":
		return nodes[len(nodes)-1].pin(p)
	}
	candidates := slices.DeleteFunc(slices.Clone(nodes), func(n *Node) bool { return !n.hasImpl(p.Impl) })
	if len(candidates) == 0 {
		return nodes[0].pin(p) // the error lists the implementations of the first node
	}
	return pinOne(name, p, candidates)
}

// unshortened returns the name for which a short name stands: a name with an ellipsis or, in a graph whose names are
// paths, the path of a module with one node. It returns the name itself if it stands for nothing. It fails if the name
// stands for several names.
func (g *Graph) unshortened(name string) (string, error) {
	before, after, hasEllipsis := strings.Cut(name, ellipsis)
	index := g.nameIndex()
	if name == "" || index.values[name] != nil || index.node(name) != nil {
		return name, nil
	}
	var names []string
	add := func(full string) {
		isFull := strings.HasPrefix(full, name+"/")
		if hasEllipsis {
			isFull = len(full) >= len(before)+len(after) && strings.HasPrefix(full, before) && strings.HasSuffix(full, after)
		}
		if isFull && !slices.Contains(names, full) {
			names = append(names, full)
		}
	}
	if hasEllipsis {
		for full := range index.values {
			add(full)
		}
	}
	for _, n := range g.Nodes {
		add(n.Name)
	}
	switch len(names) {
	case 0:
		return name, nil
	case 1:
		return names[0], nil
	}
	slices.Sort(names)
	return "", fmt.Errorf("%q may be any of %s", name, listed(names))
}

// listed lists names for an error, at most 5 of them.
func listed(names []string) string {
	const most = 5
	var quoted []string
	for _, name := range names[:min(len(names), most)] {
		quoted = append(quoted, strconv.Quote(name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// pinOne pins the only candidate. name is the name in the pin.
func pinOne(name string, p Pin, candidates []*Node) error {
	if len(candidates) == 1 {
		return candidates[0].pin(p)
	}
	var names []string
	for _, n := range candidates {
		names = append(names, n.Name)
	}
	return fmt.Errorf("%q is computed from several nodes with an implementation %q: name one of %s", name, p.Impl,
		listed(names))
}

// hasImpl reports whether the op of a node has an implementation of the name.
func (n *Node) hasImpl(name string) bool {
	return slices.ContainsFunc(n.Op.Impls, func(impl Impl) bool { return impl.Name == name })
}

// continued returns the nodes with an implementation of the given name whose results a pointwise node reads, directly
// or through further pointwise nodes, with which they may share a step.
func (n *Node) continued(impl string) (list []*Node) {
	visited := map[*Node]bool{}
	for stack := []*Node{n}; len(stack) > 0; {
		reader := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if len(reader.Out) != 1 || reader.Op.Expression == nil && !reader.Op.Identity && reader.Op.Decompose == nil {
			continue
		}
		for _, arg := range reader.In {
			if arg.Kind != TensorArg || arg.Value == nil || arg.Value.Node == nil || visited[arg.Value.Node] {
				continue
			}
			producer := arg.Value.Node
			visited[producer] = true
			if producer.hasImpl(impl) {
				list = append(list, producer)
			} else {
				stack = append(stack, producer)
			}
		}
	}
	slices.Reverse(list) // the first operand first
	return list
}

// output returns the output with the given name, or nil.
func (g *Graph) output(name string) *Output {
	for i := range g.Outputs {
		if output := &g.Outputs[i]; output.Name == name {
			return output
		}
	}
	return nil
}

// pin replaces the pin of an output. It fails for demands that only nodes can meet.
func (output *Output) pin(p Pin) error {
	if err := p.checkLayoutOnly("an output"); err != nil {
		return fmt.Errorf("output %q: %w", output.Name, err)
	}
	output.Pin = p
	return nil
}

// checkLayoutOnly returns an error for a pin that is invalid, or that demands more than a layout. The text `pinned`
// names the pinned object in errors.
func (p Pin) checkLayoutOnly(pinned string) error {
	switch {
	case p.Impl != "":
		return fmt.Errorf("%s can be pinned only to a layout: only nodes have implementations", pinned)
	case p.Device != "":
		return fmt.Errorf("%s can be pinned only to a layout: only nodes can be pinned to devices", pinned)
	}
	return p.check()
}

// pinSource adds demands on the layout of an input or a constant. It fails for other demands, which only nodes can
// meet.
func (v *Value) pinSource(p Pin) error {
	err := p.checkLayoutOnly("a value that no node computes")
	if err == nil && p.SetsLayout() {
		_, err = p.OrderFor(v.Meta.Rank())
	}
	if err != nil {
		return fmt.Errorf("%q: %w", v.Name, err)
	}
	v.Pin.add(p)
	return nil
}

// pin adds the demands of p to the node, and restores the old pin if inference rejects the node.
func (n *Node) pin(p Pin) error {
	g := n.Out[0].graph
	if err := p.check(); err != nil {
		return g.NodeError(n, err)
	}
	old := n.Pin
	n.Pin.add(p)
	err := n.Infer()
	if err == nil {
		return nil
	}
	n.Pin = old
	if oldErr := n.Infer(); oldErr != nil {
		return g.NodeError(n, oldErr) // inference rejected the node even before the pin
	}
	if p.Impl != "" {
		if unknown := n.checkImpl(p.Impl); unknown != nil {
			err = unknown
		}
	}
	return g.NodeError(n, err)
}

// checkImpl returns an error if the node's op has no implementation of this name. The error lists the implementations
// that support the node's call. If none does, it lists all implementations.
func (n *Node) checkImpl(name string) error {
	if _, err := n.Op.Impl(name); err == nil {
		return nil
	}
	var names []string
	call := n.Call()
	for i := range n.Op.Impls {
		if impl := &n.Op.Impls[i]; len(impl.Walks(call, nil)) > 0 {
			names = append(names, impl.Name)
		}
	}
	if names == nil {
		names = n.Op.implNames()
	}
	return n.Op.noImplError(name, names)
}

// Pinned pins the value to a memory format, as [Value.PinnedTo] does.
func (v *Value) Pinned(f tensor.MemoryFormat) *Value { return v.PinnedTo(Pin{Format: f}) }

// PinnedTo adds the pin p to the value's node. The pin of an input or a constant is the layout in which all nodes read
// the value. Nodes that depend on the value are inferred again. PinnedTo records errors for [Graph.Err] and returns v.
func (v *Value) PinnedTo(p Pin) *Value {
	g := v.ownerGraph()
	if v.isPlaceholder() {
		return v
	}
	if v.Node == nil {
		if err := g.Pin(v.Name, p); err != nil {
			g.recordError(err)
		}
		return v
	}
	if err := v.Node.pin(p); err != nil {
		g.recordError(err)
	} else if g.Nodes[len(g.Nodes)-1] != v.Node { // later nodes may depend on the node
		if err := g.Infer(); err != nil {
			g.recordError(err)
		}
	}
	return v
}

// InputOrder adds an input without gaps between elements. Its dimensions are stored in the given order.
func (g *Graph) InputOrder(name string, dtype tensor.DType, order tensor.Order, shape ...int) *Value {
	p := Pin{Order: order}
	err := p.check()
	if err == nil {
		_, err = p.OrderFor(len(shape))
	}
	meta := tensor.New(dtype, shape...)
	if err == nil {
		err = meta.Check()
	}
	if err != nil {
		return g.reject(name, fmt.Errorf("input %q: %w", name, err))
	}
	v := g.InputMeta(name, meta.WithStrides(order.Strides(meta.Shape)))
	v.decl = &Decl{DType: dtype, Layout: p}
	return v
}

// EffectivePin returns the pin that the value must meet. For the result of a node this is the pin of the node. For an
// input or a constant it is the pin of the value.
func (v *Value) EffectivePin() Pin {
	switch {
	case v == nil:
		return Pin{}
	case v.Node != nil:
		return v.Node.Pin
	}
	return v.Pin
}

// EffectivePin returns the pin that the output must meet. This is the pin of the output. If it demands no layout and
// the output is an input or a constant, EffectivePin returns the pin of the value instead.
func (output Output) EffectivePin() Pin {
	if output.Pin.SetsLayout() || output.Value == nil || output.Value.Node != nil {
		return output.Pin
	}
	return output.Value.Pin
}

// PinError is the error of a pin that cannot be met. Name is the name of the value, node or output.
type PinError struct {
	Name string
	Pin  Pin
	Err  error
}

// Error returns the pin and the reason.
func (e *PinError) Error() string { return fmt.Sprintf("pin %s=%v: %v", e.Name, e.Pin, e.Err) }

// Unwrap returns the reason.
func (e *PinError) Unwrap() error { return e.Err }

// PinCause returns a [*PinError] with the error of an inference if a pin to a layout causes it: without pins, inference
// accepts the node that err names. Otherwise it returns err.
func (g *Graph) PinCause(err error) error {
	var rejected *Error
	if !errors.As(err, &rejected) || errors.As(err, new(*PinError)) {
		return err
	}
	i := slices.IndexFunc(g.Nodes, func(n *Node) bool { return n.Name == rejected.Node })
	if i < 0 {
		return err
	}
	name, pin := g.Nodes[i].pinBefore()
	if !pin.SetsLayout() {
		return err
	}
	if unpinned := g.withoutLayoutPins(); unpinned.InferAll()[unpinned.Nodes[i]] != nil {
		return err
	}
	return &PinError{Name: name, Pin: pin, Err: err}
}

// withoutLayoutPins returns a copy of the graph whose nodes are not pinned to layouts.
func (g *Graph) withoutLayoutPins() *Graph {
	unpinned := g.Clone()
	for _, n := range unpinned.Nodes {
		n.Pin = Pin{Impl: n.Pin.Impl, Device: n.Pin.Device}
	}
	return unpinned
}

// pinBefore returns the pin to a layout of the node, or of the nearest node on which it depends, and the name of the
// pinned value.
func (n *Node) pinBefore() (string, Pin) {
	visited := map[*Node]bool{}
	for list := []*Node{n}; len(list) > 0; list = list[1:] {
		n := list[0]
		if visited[n] {
			continue
		}
		visited[n] = true
		if n.Pin.SetsLayout() {
			return n.Out[0].Name, n.Pin
		}
		for i := range n.dependencyCount() {
			if v := n.dependency(i); v != nil && v.Node != nil {
				list = append(list, v.Node)
			}
		}
	}
	return "", Pin{}
}

// PinErrors returns an error for each output whose pin demands a layout of another rank. It omits
// dynamic values and results of rejected nodes.
func (g *Graph) PinErrors(rejected map[*Node]*Error) (errs Errors) {
	for _, output := range g.Outputs {
		if !output.Pin.SetsLayout() || output.Value == nil || output.Value.Dynamic || rejected[output.Value.Node] != nil {
			continue
		}
		if _, err := output.Pin.OrderFor(output.Value.Meta.Rank()); err != nil {
			errs = append(errs, g.OutputError(output, &PinError{Name: output.Name, Pin: output.Pin, Err: err}))
		}
	}
	return errs
}

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
